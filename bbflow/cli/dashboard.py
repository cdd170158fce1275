"""Show a run's report in a browser while it lasts: maps, time series, and who works when.

The page is on this host's loopback only; from elsewhere, forward its port: ssh -L 8765:127.0.0.1:8765 HOST.

Example:
  bbflow dashboard out --port 8765
"""

import argparse
import hashlib
import hmac
import secrets
import sys
from contextlib import suppress
from pathlib import Path

from bbflow.errors import ConfigError
from bbflow.host.log import tell
from bbflow.net.contact import contact_key
from bbflow.report.dashboard import Dashboard
from bbflow.report.page import render_page
from bbflow.report.writing import page_of
from bbflow.units import parse_seconds


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("output", type=Path, metavar="OUTPUT", help="the run's output directory")
    parser.add_argument(
        "--contact", type=Path, help="make the address from this contact file's key, so that it is the same each time"
    )
    parser.add_argument("--port", type=int, default=0, help="port on loopback (default: a free one)")
    parser.add_argument(
        "--every", type=parse_seconds, default=10.0, metavar="SECONDS", help="draw it again (default: %(default)g)"
    )


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    if not 0 <= options.port <= 65535:
        raise ConfigError(f"--port {options.port}: give a number up to 65535, or 0 for a free one")
    page_of(options.output)  # says at once what is wrong with the directory
    dashboard = Dashboard(
        lambda: render_page(page_of(options.output)), _secret(options.contact), options.port, options.every
    )
    tell(dashboard.address, sys.stdout)
    with suppress(KeyboardInterrupt):
        dashboard.serve()
    return 0


def _secret(contact: Path | None) -> str:
    """Make the address' secret: of a contact file's key, which it doesn't give away, or by chance."""
    if contact is None:
        return secrets.token_urlsafe(32)
    return hmac.new(bytes.fromhex(contact_key(contact)), b"dashboard", hashlib.sha256).hexdigest()
