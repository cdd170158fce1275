"""Print numbers about BB nodes, files and stagers as OpenMetrics, or serve them to Prometheus.

Servers are asked from outside, by what 'bbflow status' asks too, so no step of a simulation waits for it. Whoever asks
the page needs a token, which follows from the contact file's key: --token writes it to a file for Prometheus.

Example:
  bbflow metrics --contact contact.json
  bbflow metrics --contact contact.json --events out --listen 127.0.0.1:9465 --token /etc/prometheus/bbflow.token
"""

import argparse
import os
import sys
from contextlib import suppress
from pathlib import Path

from bbflow.errors import ConfigError
from bbflow.host.log import tell
from bbflow.metrics import MetricsServer, NotedEvents, ask, exposition, secret_of
from bbflow.net.contact import contact_key


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--contact", type=Path, help="contact file of the BB nodes and masters")
    parser.add_argument(
        "--events",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="directory with the events of a stager or a run, or output of an ensemble",
    )
    parser.add_argument("--listen", metavar="HOST:PORT", help="serve them there instead, until Ctrl-C")
    parser.add_argument("--token", type=Path, metavar="FILE", help="write the token there, which only you may read")


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    if options.contact is None and not options.events:
        raise ConfigError("give --contact, --events or both: there is nothing else to ask")
    if options.contact is not None and not options.contact.exists():
        raise ConfigError(f"{options.contact} isn't there: name the contact file of nodes that run")
    if (options.listen is not None or options.token) and options.contact is None:
        raise ConfigError("--listen and --token need --contact: the token follows from its key")
    noted = [NotedEvents(directory) for directory in options.events]
    if options.token:
        _write_token(options.token, secret_of(contact_key(options.contact)))
    if options.listen is None:
        sys.stdout.write(exposition(ask(options.contact, noted)).decode())
        return 0
    with MetricsServer(
        _address(options.listen),
        secret_of(contact_key(options.contact)),
        lambda: exposition(ask(options.contact, noted)),
    ) as server:
        host, port = server.server_address[:2]
        tell(f"numbers at http://{host!s}:{port}/metrics", sys.stdout)
        with suppress(KeyboardInterrupt):
            server.serve_forever()
    return 0


def _address(text: str) -> tuple[str, int]:
    host, mark, port = text.rpartition(":")
    if not mark or not host or not port.isdigit() or int(port) > 65535:
        raise ConfigError(f"--listen {text}: write it like 127.0.0.1:9465")
    return host.strip("[]"), int(port)


def _write_token(path: Path, token: str) -> None:
    path.unlink(missing_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(token)
