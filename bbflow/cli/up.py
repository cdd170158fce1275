"""Start BB nodes, a Dask scheduler and workers on this host; they live until 'bbflow down'.

Example:
  bbflow up --nodes 2 --capacity 4GiB --contact contact.json --scheduler-file scheduler.json
  bbflow run analysis.yml --contact contact.json --scheduler scheduler.json -- mpiexec -n 4 ./model
  bbflow down --contact contact.json --scheduler-file scheduler.json
"""

import argparse
import subprocess
import sys
from collections.abc import Collection
from contextlib import ExitStack, suppress
from pathlib import Path

from bbflow.cli.node import (
    add_files_arguments,
    add_listen_arguments,
    files_options,
    listen_options,
    refuse_lone_files_options,
    servers_options,
)
from bbflow.cli.without_effect import refuse
from bbflow.errors import ConfigError, NodeError
from bbflow.host.log import tell
from bbflow.host.waiting import until
from bbflow.landing.embedded import (
    DEFAULT_DIRECTORY,
    START_TIMEOUT_S,
    make_root,
    remove_root,
    spawn_node,
    wait_until_ready,
)
from bbflow.net.contact import read_contact, remove_scheduler_file
from bbflow.net.listen import split_address
from bbflow.units import parse_capacity

MOST_NODES = 1024


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--contact", type=Path, required=True, help="contact file to write")
    parser.add_argument("--nodes", type=int, default=1, help="BB nodes on this host (default: %(default)s)")
    parser.add_argument("--capacity", default="512MiB", help="what each may hold in memory (default: %(default)s)")
    parser.add_argument("--directory", type=Path, default=DEFAULT_DIRECTORY, help="default: %(default)s")
    add_files_arguments(parser)
    add_listen_arguments(parser)
    parser.add_argument("--scheduler-file", type=Path, help="also start Dask, and write its scheduler file")
    parser.add_argument(
        "--dashboard",
        metavar="ADDRESS",
        help="HOST:PORT of Dask's dashboard, which asks for no key (default: none)",
    )
    parser.add_argument("--threads", type=int, default=2, help="threads of Dask that fold (default: %(default)s)")


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    if min(options.nodes, options.threads) < 1:
        raise ConfigError("--nodes and --threads must be 1 or more")
    if options.nodes > MOST_NODES:
        raise ConfigError(f"--nodes {options.nodes}: one host has {MOST_NODES} at most")
    if options.files:
        _check_files(options)
    refuse_lone_files_options(options)
    if options.scheduler_file is None:
        refuse(options, "without --scheduler-file", "dashboard", "threads")
    names = [f"bb{number}" for number in range(options.nodes)]
    _check_names(options.contact, names)
    root = make_root(options.directory)
    with ExitStack() as undoing:
        undoing.callback(remove_root, root)
        for name in names:
            capacity, words = parse_capacity(options.capacity), [*listen_options(options), *files_options(options)]
            process = spawn_node(name, root, capacity, options.contact, options=words)
            undoing.callback(_end, process)
            wait_until_ready(name, options.contact, process, root / f"{name}.log")
        if options.files:
            _wait_for_files(options.contact, options.subtree, options.nodes)
        if options.scheduler_file:
            _start_dask(options, root)
        undoing.pop_all()
    print(f"{options.nodes} BB nodes are up: see 'bbflow status --contact {options.contact}'")
    return 0


def _check_names(contact: Path, names: Collection[str]) -> None:
    """Check that no node of these names is there: it would be taken for the one that is started."""
    there = [node.name for node in read_contact(contact) if node.name in names] if contact.exists() else []
    if there:
        raise NodeError(
            f"{contact} has node {there[0]} already: end it by 'bbflow down --contact {contact}', or give another file"
        )


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End a node that is of no use without the others."""
    process.terminate()
    process.wait()


def _check_files(options: argparse.Namespace) -> None:
    """Refuse what no server takes, and tell what files would wait for: a bucket that is missing may come yet."""
    from bbflow.cli.files_servers import add_ionode, add_master, check_words  # late: nodes without files need
    from bbflow.files.ionode.landed_streams import storage_at  # nothing of them

    ionode, master = servers_options(options)
    check_words(add_ionode, "ionode", ionode)
    check_words(add_master, "master", ["--subtree", options.subtree, *master])
    url = options.files.rstrip("/")
    if url != "none" and (refusal := storage_at(url).refusal()):
        said = f"{refusal}; until it answers, each call for files fails with EIO"
        tell(said)


def _wait_for_files(contact: Path, subtree: str, nodes: int) -> None:
    from bbflow.files.client.client import FilesClient  # late: nodes without files need nothing of it

    def are_up() -> bool:
        with suppress(NodeError), FilesClient(contact) as client:
            masters = (status for status in client.status() if status.subtree == subtree)
            return sum(node.up for status in masters for node in status.nodes) >= nodes
        return False

    if not until(are_up, START_TIMEOUT_S):
        raise NodeError(f"the files' servers didn't start within {START_TIMEOUT_S:.0f} s: see the nodes' logs")


def _start_dask(options: argparse.Namespace, root: Path) -> None:
    file = options.scheduler_file
    remove_scheduler_file(file)
    host, _ = split_address(options.listen)
    shared = ["--contact", str(options.contact), "--scheduler-file", str(file), "--listen", host]
    dashboard = ["--dashboard", options.dashboard] if options.dashboard else []
    _spawn(["scheduler", *shared, *dashboard], root / "scheduler.log")
    if not until(file.exists, START_TIMEOUT_S):
        raise NodeError(f"the Dask scheduler didn't start: see {root / 'scheduler.log'}")
    # 'bbflow down' doesn't know of a worker that is still starting: it ends by itself.
    _spawn(["worker", *shared, "--threads", str(options.threads)], root / "worker.log")


def _spawn(words: list[str], log: Path) -> None:
    with log.open("wb") as file:
        subprocess.Popen(
            [sys.executable, "-m", "bbflow", "dask", *words],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
