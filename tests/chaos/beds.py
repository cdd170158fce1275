"""What a run has around it: small file systems, nodes that were started by hand, and hosts that a network joins."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from chaos.runs import Setting
from testsupport.fabrics import PROVIDER
from testsupport.namespaces import Hosts, joined_hosts, missing
from testsupport.nodes import count_nodes
from testsupport.waiting import until

Around = Callable[[Path], Any]
"""Gives a context manager that gives the run's setting; it gets the run's folder."""
MPI_ON_ONE_HOST = "env", "UCX_TLS=self,sm"
"""MPI's ranks don't talk over the network that is cut: MPI_Init fails without it."""
COMPUTE, NODES = "10.77.0.1", ("10.77.0.2", "10.77.0.3")


@contextmanager
def nothing(folder: Path) -> Iterator[Setting]:
    """Give a run what it has anyway."""
    yield Setting()


@contextmanager
def by_libfabric(folder: Path) -> Iterator[Setting]:
    """Make ranks that land by libfabric do so by a provider that needs no special network."""
    yield Setting(engine={"FabricProvider": PROVIDER})


def mounted(name: str, size: str) -> Around:
    """Return a run a small file system in memory, which only root can make."""

    @contextmanager
    def around(folder: Path) -> Iterator[Setting]:
        place = folder / name
        place.mkdir(parents=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(place)], check=True)
        try:
            yield Setting()
        finally:
            subprocess.run(["umount", "--lazy", str(place)], check=False)

    return around


@contextmanager
def by_hand(folder: Path) -> Iterator[Setting]:
    """Start two nodes that nobody starts again; their ranks soon give up one that is gone."""
    with _nodes(folder, [[], []]) as (contact, processes):
        options = ("--contact", str(contact))
        yield Setting(options=options, engine={"NodeLossTimeoutSecs": "1"}, nodes=processes)


@contextmanager
def apart(folder: Path) -> Iterator[Setting]:
    """Put the simulation on a host of its own, and all else on another one, whose two nodes have an address each."""
    with joined_hosts({"compute": COMPUTE, "bbn": NODES[0]}) as hosts:
        hosts.run("bbn", f"ip address add {NODES[1]}/24 dev eth0")
        inside = hosts.inside("bbn")
        with _nodes(folder, [["--listen", address] for address in NODES], inside) as (contact, processes):
            yield Setting(
                before_run=tuple(inside),
                before_simulation=(*hosts.inside("compute"), *MPI_ON_ONE_HOST),
                options=("--contact", str(contact)),
                engine={"NodeLossTimeoutSecs": "60"},
                nodes=processes,
                hosts=hosts,
            )


def has_networks() -> bool:
    """Whether hosts can be made here."""
    return os.geteuid() == 0 and missing() is None


def cut(hosts: Hosts, *, off: bool) -> None:
    """Take the cable of the simulation's host out, or put it in."""
    hosts.run("bridge", f"ip link set compute {'down' if off else 'up'}")


def lose_way(hosts: Hosts, address: str) -> None:
    """Drop what the simulation's host sends to an address."""
    hosts.run("compute", f"ip neigh replace {address} lladdr 02:00:00:00:00:01 dev eth0 nud permanent")


@contextmanager
def _nodes(
    folder: Path, options: list[list[str]], before: list[str] | None = None
) -> Iterator[tuple[Path, Mapping[str, "subprocess.Popen[bytes]"]]]:
    contact, directory = folder / "contact.json", folder / "nodes"
    directory.mkdir(parents=True)
    started: dict[str, subprocess.Popen[bytes]] = {}
    with ExitStack() as stack:
        for number, own in enumerate(options):
            name = f"bb{number}"
            words = ["node", "--name", name, "--capacity", "256KiB", "--contact", str(contact)]
            words += ["--directory", str(directory), *own]
            log = stack.enter_context((folder / f"{name}.log").open("wb"))
            command = [*(before or []), sys.executable, "-m", "bbflow", *words]
            started[name] = stack.enter_context(subprocess.Popen(command, stdout=log, stderr=log))
            stack.callback(started[name].kill)
        until(lambda: count_nodes(contact) == len(options), f"{len(options)} nodes")
        yield contact, started
