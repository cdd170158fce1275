"""Be one BB node: keep a pool in shared memory and take steps in, until told to stop.

Example, on each BB node of a cluster:
  bbflow node --name $(hostname) --capacity 64GiB --contact /shared/contact.json --listen $(hostname)
"""

import argparse
import shlex
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from bbflow.cli.without_effect import refuse
from bbflow.errors import ConfigError
from bbflow.host.belongings import locked, make
from bbflow.host.log import tell
from bbflow.landing.adopt import adopt
from bbflow.landing.embedded import DEFAULT_DIRECTORY, own_directory, remove_root
from bbflow.landing.server import SOCKET_NAME, serve
from bbflow.net.contact import NodeAddress, add_node, contact_key, remove_node
from bbflow.net.listen import LOOPBACK
from bbflow.net.peers import Endpoint
from bbflow.net.tls import Certificate
from bbflow.store.node import FILES, NodeStore
from bbflow.units import parse_bytes, parse_capacity

if TYPE_CHECKING:
    from bbflow.files.companions import Companions

LEAST_FILES_SHARE = 16
"""At least this part of a node is left to its files while there are streams."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--name", required=True, help="unique in the contact file")
    parser.add_argument("--contact", type=Path, required=True, help="contact file to stand in while the node runs")
    parser.add_argument("--capacity", default="512MiB", help="what it may hold in memory (default: %(default)s)")
    parser.add_argument(
        "--directory",
        type=Path,
        default=DEFAULT_DIRECTORY,
        help="it makes its own in this one, and finds it again when it is started again (default: %(default)s)",
    )
    parser.add_argument(
        "--adopt", type=Path, metavar="DIRECTORY", help="take in what ranks without a node wrote to a SpillDirectory"
    )
    add_files_arguments(parser)
    add_listen_arguments(parser)
    parser.add_argument("--with-parent", action="store_true", help="also end when standard input ends")


def add_files_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the files that a node keeps beside its streams."""
    files = parser.add_argument_group("files (see docs/files.md)")
    files.add_argument(
        "--files", metavar="URL", help="also keep files, in front of this shared storage ('none' for no storage)"
    )
    files.add_argument("--files-capacity", metavar="SIZE", help="the most that files take (default: all of --capacity)")
    files.add_argument(
        "--streams-capacity",
        metavar="SIZE",
        help="size of the streams' pool, which is claimed when one opens (default with --files: half of --capacity)",
    )
    files.add_argument("--files-options", default="", metavar="WORDS", help="options of 'bbflow files master'")
    files.add_argument("--files-policy", metavar="POLICY", help="delay policy of transfers, as for 'bbflow stage'")
    files.add_argument("--files-phases", type=Path, metavar="DIR", help="where other applications' I/O phases are seen")
    files.add_argument("--subtree", default="/", help="which part of the namespace (default: %(default)s)")


def refuse_lone_files_options(options: argparse.Namespace) -> None:
    """Refuse options about files for a node that keeps none."""
    if not options.files:
        names = ("files-capacity", "files-options", "files-policy", "files-phases", "streams-capacity", "subtree")
        refuse(options, "without --files", *names)


def files_options(options: argparse.Namespace) -> list[str]:
    """Return these options again, for a node that is started with them."""
    if not options.files:
        return []
    names = ("files-capacity", "files-policy", "files-phases", "streams-capacity")
    given = {name: getattr(options, name.replace("-", "_")) for name in names}
    words = ["--files", options.files, "--subtree", options.subtree, f"--files-options={options.files_options}"]
    return [*words, *(word for name, value in given.items() if value for word in (f"--{name}", str(value)))]


def add_listen_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare how a node lets peers of other hosts in."""
    parser.add_argument(
        "--listen", default=LOOPBACK, metavar="ADDRESS", help="host[:port] for other hosts (default: %(default)s)"
    )
    tls = parser.add_argument_group("TLS, all three or none (PEM files)")
    tls.add_argument("--tls-certificate", type=Path, help="the node's certificate")
    tls.add_argument("--tls-key", type=Path, help="its private key")
    tls.add_argument("--tls-authority", type=Path, help="the authority's certificate, where peers can read it")


def listen_options(options: argparse.Namespace) -> list[str]:
    """Return these options again, for a node that is started with them."""
    tls = {f"--tls-{name}": getattr(options, f"tls_{name}") for name in ("certificate", "key", "authority")}
    return ["--listen", options.listen, *(str(word) for item in tls.items() if item[1] for word in item)]


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    refuse_lone_files_options(options)
    certificate = certificate_of(options)
    directory = own_directory(options.directory, options.name, options.contact)
    endpoint = Endpoint(contact_key(options.contact), options.listen, certificate)
    where = (options.name, socket.gethostname(), str(directory / SOCKET_NAME), str(directory))
    authority = str(certificate.authority.resolve()) if certificate else ""

    def ready(tcp: str) -> None:
        add_node(options.contact, NodeAddress(*where, endpoint.key, tcp, authority))

    capacity = parse_capacity(options.capacity)
    pool = pool_part(capacity, options.streams_capacity) if options.files else capacity
    make(directory, *FILES)
    with locked(directory, f"another agent serves {directory}: stop it first"), ExitStack() as companions:
        try:
            room = None
            if options.files:
                files = _start_files(options, endpoint.key, capacity)
                companions.callback(files.close)
                room = files.room
            store = NodeStore(directory, pool, room)
            if options.adopt:
                count = adopt(store, options.adopt)
                taken = f"the steps of {count} ranks" if count else "nothing, since there is nothing new"
                tell(f"adopted {taken} in {options.adopt}")
            serve(store, options.name, endpoint, ready, with_parent=options.with_parent)
        finally:
            remove_node(options.contact, options.name, str(directory))
    if options.with_parent:
        remove_root(directory.parent)
    return 0


def pool_part(capacity: int, streams_capacity: str | None) -> int:
    """Return how large the pool of the streams is on a node that has files, too.

    Raises
    ------
    ConfigError
        If it leaves too little for the files while it is there.
    """
    part = parse_bytes(streams_capacity) if streams_capacity else capacity // 2
    if part > capacity - capacity // LEAST_FILES_SHARE:
        raise ConfigError(
            f"--streams-capacity {part} leaves too little of --capacity {capacity} for files: a "
            f"{LEAST_FILES_SHARE}th at least"
        )
    return part


def servers_options(options: argparse.Namespace) -> tuple[list[str], list[str]]:
    """Return the options of ``bbflow files ionode`` and of ``bbflow files master`` that these mean."""
    storage = [] if options.files == "none" else ["--storage", options.files]
    given = {"--policy": options.files_policy, "--phases": options.files_phases}
    ionode = [*storage, *(word for name, value in given.items() if value for word in (name, str(value)))]
    return ionode, [*storage, *shlex.split(options.files_options)]


def _start_files(options: argparse.Namespace, key: str, capacity: int) -> "Companions":
    from bbflow.files.companions import Companions  # late: a node without files needs nothing of it

    where = (options.name, options.contact.resolve(), options.directory, key)
    most = parse_bytes(options.files_capacity) if options.files_capacity else capacity
    return Companions(*where, listen_options(options), capacity, most, *servers_options(options), options.subtree)


def certificate_of(options: argparse.Namespace) -> Certificate | None:
    """Return the certificate that the options name, if they name one."""
    files = (options.tls_certificate, options.tls_key, options.tls_authority)
    if not any(files):
        return None
    if not all(files):
        raise ConfigError("TLS needs --tls-certificate, --tls-key and --tls-authority")
    return Certificate(*files)
