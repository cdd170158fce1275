"""Stop the BB nodes of this host that 'bbflow up' started, and the Dask cluster of a scheduler file.

Example:
  bbflow down --contact contact.json --scheduler-file scheduler.json
"""

import argparse
import socket
from pathlib import Path

from bbflow.errors import NodeError
from bbflow.host.belongings import is_made
from bbflow.host.log import tell
from bbflow.host.waiting import until
from bbflow.landing.client import tell_node
from bbflow.landing.embedded import remove_root
from bbflow.landing.requests import StopRequest
from bbflow.net.certificate import certificate_of
from bbflow.net.contact import NodeAddress, has_masters, read_contact, remove_node
from bbflow.units import parse_seconds

GONE_TIMEOUT_S = 60.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--contact", type=Path, required=True, help="contact file of the BB nodes")
    parser.add_argument("--scheduler-file", type=Path, help="also shut this Dask cluster down")
    parser.add_argument("--timeout", type=parse_seconds, metavar="SECONDS",
                        help="how long to wait for files that aren't written back (600) or closed (60)")  # fmt: skip
    parser.add_argument("--force", action="store_true", help="even if unfolded steps are lost with them")


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    _end_files(options.contact, force=options.force, wait_s=options.timeout)
    for node in read_contact(options.contact):
        if node.host != socket.gethostname():
            tell(f"node {node.name} is on {node.host}: run 'bbflow down' there")
            continue
        _stop(node, force=options.force)
        remove_node(options.contact, node.name, node.directory)
    if options.scheduler_file:
        from bbflow.transit.clusters.service import (
            shut_down,  # late: without a scheduler file nothing of Dask is needed
        )

        certificate = certificate_of(options.contact)
        shut_down(certificate, options.scheduler_file)
        certificate.unlink(missing_ok=True)
    return 0


def _end_files(contact: Path, *, force: bool, wait_s: float | None) -> None:
    """Write files back, and end their servers; without files there is nothing to do."""
    if not has_masters(contact):
        return
    from bbflow.cli.refusals import telling_refusals  # late: only where there are files
    from bbflow.files.client.client import FilesClient

    try:
        with FilesClient(contact) as client, telling_refusals(contact):
            client.end(force=force, wait_s=wait_s)
    except (NodeError, OSError) as error:
        if not force:
            raise NodeError(f"the files can't be ended: {error}; with --force they go as they are") from None


def _stop(node: NodeAddress, *, force: bool) -> None:
    try:
        tell_node(node, StopRequest(force=force))
    except NodeError:
        tell(f"node {node.name} was gone already")
    root = Path(node.directory).parent
    until(lambda: not _is_there(node, root), GONE_TIMEOUT_S)
    remove_root(root)


def _is_there(node: NodeAddress, root: Path) -> bool:
    """Whether a node, or a server of files that belongs to it, still has its directory."""
    return Path(node.pool).exists() or any(map(is_made, root.glob(f"bbflow-{node.name}-*/")))
