"""The servers of the files on BB nodes as commands: `bbflow files master` and `bbflow files ionode`."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from bbflow.cli.node import add_listen_arguments, certificate_of
from bbflow.files.giving_way import GivingWay
from bbflow.files.ionode.ionode import IoNodeSettings
from bbflow.files.options import Options
from bbflow.files.processes import run_ionode, run_master
from bbflow.net.contact import contact_key
from bbflow.net.peers import Endpoint
from bbflow.staging.policies import Policy, checked_policy
from bbflow.store.shared_room import NodeRoom
from bbflow.units import parse_bytes, parse_seconds


def _add_server(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--contact", type=Path, required=True, help="contact file of the nodes")
    parser.add_argument("--directory", type=Path, required=True, help="where it keeps what it has")
    parser.add_argument("--subtree", default="/", help="which part of the namespace (default: %(default)s)")
    parser.add_argument(
        "--storage", default="", metavar="URL", help="shared storage behind the files: s3://, a path, …"
    )
    parser.add_argument("--with-parent", action="store_true", help="also end when standard input ends")
    add_listen_arguments(parser)


def add_master(parser: argparse.ArgumentParser) -> None:
    """Declare the options of a master."""
    _add_server(parser)
    parser.set_defaults(act=_be_master, check=_keeping)
    parser.add_argument("--name", default="master", help="for messages (default: %(default)s)")
    _add_keeping_arguments(parser)


def _add_keeping_arguments(parser: argparse.ArgumentParser) -> None:
    standard = Options()
    parser.add_argument(
        "--write-back", choices=("background", "close", "fsync", "end"), default=standard.write_back,
        help="when files go to the shared storage (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--write-back-after", type=parse_seconds, default=standard.write_back_after_s,
                        metavar="SECONDS", help="how long a file rests before that (default: %(default)g)")  # fmt: skip
    parser.add_argument(
        "--scratch", action="append", default=[], metavar="PATTERN", help="never write such files back, as '*.tmp'"
    )
    parser.add_argument("--piece", default=str(standard.piece_bytes), metavar="SIZE", help="stripe of large files")
    parser.add_argument("--replicas", type=int, default=standard.replicas, help="IOnodes that have each file")
    parser.add_argument("--near", action="store_true", help="put files on the writer's own host while it has room")
    parser.add_argument("--wait", type=parse_seconds, default=standard.wait_s, metavar="SECONDS",
                        help="how long opening waits for a file that is being written (default: not)")  # fmt: skip
    parser.add_argument("--room-timeout", type=parse_seconds, default=standard.room_timeout_s, metavar="SECONDS",
                        help="how long a writer waits for room (default: %(default)g)")  # fmt: skip
    parser.add_argument("--node-loss", type=parse_seconds, default=standard.node_loss_s, metavar="SECONDS",
                        help="when bytes of an IOnode that is away count as lost (default: %(default)g)")  # fmt: skip
    parser.add_argument("--lease", type=parse_seconds, default=standard.lease_s, metavar="SECONDS",
                        help="how long a silent client keeps what it has open (default: %(default)g)")  # fmt: skip
    parser.add_argument("--files-ahead", type=int, default=standard.files_ahead, metavar="FILES",
                        help="how many files come ahead where a program opens a directory's one after another; "
                             "0 for none (default: %(default)d)")  # fmt: skip
    parser.add_argument("--read-only", action="store_true", help="let clients change nothing")
    parser.add_argument("--refresh", type=parse_seconds, default=standard.refresh_s, metavar="SECONDS",
                        help="look at directories in the shared storage again (default: when asked)")  # fmt: skip


def check_words(declare: Callable[[argparse.ArgumentParser], None], name: str, words: Sequence[str]) -> None:
    """Check that a server could be started with such options.

    Raises
    ------
    ConfigError
        If a value can't be.
    SystemExit
        If there is no such option; the usage has been printed.
    """
    parser = argparse.ArgumentParser(f"bbflow files {name}", usage=argparse.SUPPRESS)
    declare(parser)
    given = parser.parse_args(["--name", "", "--contact", "", "--directory", "", *words])
    given.check(given)


def _be_master(options: argparse.Namespace) -> int:
    endpoint = Endpoint(contact_key(options.contact), options.listen, certificate_of(options))
    kept = _keeping(options)
    run_master(options.contact, options.name, options.directory, endpoint, kept, with_parent=options.with_parent)
    return 0


def _keeping(options: argparse.Namespace) -> Options:
    return Options(
        storage=_storage(options),
        write_back=options.write_back,
        write_back_after_s=options.write_back_after,
        scratch=tuple(options.scratch),
        piece_bytes=parse_bytes(options.piece),
        replicas=options.replicas,
        near=options.near,
        wait_s=options.wait,
        room_timeout_s=options.room_timeout,
        lease_s=options.lease,
        node_loss_s=options.node_loss,
        refresh_s=options.refresh,
        files_ahead=options.files_ahead,
        read_only=options.read_only,
        subtree=options.subtree,
    )


def add_ionode(parser: argparse.ArgumentParser) -> None:
    """Declare the options of an IOnode."""
    _add_server(parser)
    parser.set_defaults(act=_be_ionode, check=_policy)
    parser.add_argument("--name", required=True, help="unique under its master")
    parser.add_argument("--capacity", default="512MiB", help="how much its files may take (default: %(default)s)")
    parser.add_argument(
        "--room", type=Path, metavar="FILE", help="shares SIZE by this file with the pool of the node's streams"
    )
    _add_giving_way_arguments(parser)


def _add_giving_way_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--policy", default="no-action", help="delay policy of transfers, as for 'bbflow stage'")
    parser.add_argument("--phases", type=Path, metavar="DIR", help="where I/O phases are announced")


def _be_ionode(options: argparse.Namespace) -> int:
    endpoint = Endpoint(contact_key(options.contact), options.listen, certificate_of(options))
    settings = IoNodeSettings(
        options.name,
        options.contact,
        options.directory,
        parse_bytes(options.capacity),
        options.subtree,
        NodeRoom(options.room) if options.room else None,
    )
    way = GivingWay(options.policy, options.phases)
    run_ionode(settings, endpoint, _storage(options), way, with_parent=options.with_parent)
    return 0


def _policy(options: argparse.Namespace) -> Policy:
    return checked_policy(options.policy, options.phases)


def _storage(options: argparse.Namespace) -> str:
    """Return where the files of a subtree are in the shared storage."""
    if not options.storage:
        return ""
    return str(options.storage).rstrip("/") + ("" if options.subtree == "/" else options.subtree)
