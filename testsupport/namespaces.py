"""Hosts on one machine: network namespaces with names of their own, joined by a bridge, gone whatever happens."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from bbflow.host.belongings import make, remove

PREFIX = "bbflow-bed"
MEMORY = Path("/dev/shm")
PATIENCE_S = 120.0
"""How long any one command may take: it ends a hang."""
_NUMBERS = count()


@dataclass(frozen=True)
class Hosts:
    """The hosts of one bed; the bridge has a namespace to itself, so the machine's own network never sees any of it."""

    tag: str
    """Distinguishes beds on one machine: the process id of their owner, a point, and a number."""
    memory: Path | None = None
    """Where each host's own shared memory is; None: all hosts share this machine's."""

    def name(self, host: str) -> str:
        """Name the namespace of a host."""
        return f"{PREFIX}-{self.tag}-{host}"

    def inside(self, host: str, *words: str) -> list[str]:
        """Return the command that runs `words` on a host, where `gethostname` gives the host's name."""
        named = ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', host]
        return ["ip", "netns", "exec", self.name(host), *named, *self._with_memory(host), *words]

    def _with_memory(self, host: str) -> list[str]:
        if self.memory is None:
            return []
        own = self.memory / host
        own.mkdir(parents=True, exist_ok=True)
        own.chmod(0o1777)  # as shared memory is
        return ["unshare", "--mount", "sh", "-c", f'mount --bind "$0" {MEMORY} && exec "$@"', str(own)]

    def run(self, host: str, command: str) -> None:
        """Run one short command on a host; `subprocess.CalledProcessError` holds what it said."""
        subprocess.run(
            self.inside(host, *command.split()), check=True, capture_output=True, text=True, timeout=PATIENCE_S
        )


def missing() -> str | None:
    """Return why hosts can't be made here, or None if they can; the kernel is asked by trying."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for tool, package in (("ip", "iproute2"), ("unshare", "util-linux"), ("hostname", "hostname")):
        if shutil.which(tool) is None:
            return f"{tool} is missing: apt install {package}"
    try:
        with joined_hosts({"here": "10.77.0.1"}):
            return None
    except subprocess.CalledProcessError as error:
        return f"the kernel refuses {' '.join(error.cmd)}: {(error.stderr or '').strip()} (needed: netns, veth, bridge)"


@contextmanager
def joined_hosts(addresses: Mapping[str, str], own_memory: bool = False) -> Iterator[Hosts]:
    """Make hosts and join them; on the way out whatever runs on them is killed and they are deleted.

    Parameters
    ----------
    addresses
        Host name to IPv4 address; all in one network of 24 bits.
    own_memory
        Whether no host sees another's shared memory.
    """
    sweep()
    with ExitStack() as stack:
        # Not in shared memory itself: a host could not start anything on another one, as ssh does.
        memory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=f"{PREFIX}-"))) if own_memory else None
        hosts = Hosts(f"{os.getpid()}.{next(_NUMBERS)}", memory)
        for host in ("bridge", *addresses):
            stack.callback(_remove, hosts.name(host))
            subprocess.run(
                ["ip", "netns", "add", hosts.name(host)], check=True, capture_output=True, timeout=PATIENCE_S
            )
            hosts.run(host, "ip link set lo up")
        hosts.run("bridge", "ip link add br0 type bridge")
        hosts.run("bridge", "ip link set br0 up")
        for host, address in addresses.items():
            _join(hosts, host, address)
        yield hosts


def _join(hosts: Hosts, host: str, address: str) -> None:
    hosts.run("bridge", f"ip link add {host} type veth peer name eth0 netns {hosts.name(host)}")
    hosts.run("bridge", f"ip link set {host} master br0 up")
    hosts.run(host, f"ip address add {address}/24 dev eth0")
    hosts.run(host, "ip link set eth0 up")


def sweep() -> None:
    """Remove the namespaces, and what is in memory, that a killed owner left behind."""
    listed = subprocess.run(
        ["ip", "netns", "list"], check=True, capture_output=True, text=True, timeout=PATIENCE_S
    ).stdout
    names = [line.split()[0] for line in listed.splitlines() if line.startswith(f"{PREFIX}-")]
    for name in names:
        if not _owner_lives(name):
            _remove(name)
    for folder in MEMORY.glob(f"{PREFIX}-*"):
        if not _owner_lives(folder.name):
            remove(folder)


@contextmanager
def folder_in_memory() -> Iterator[str]:
    """Make a directory in memory that goes with the block, or with the next bed."""
    folder = Path(tempfile.mkdtemp(dir=MEMORY, prefix=f"{PREFIX}-{os.getpid()}."))
    make(folder, "**")
    try:
        yield str(folder)
    finally:
        remove(folder)


def _owner_lives(name: str) -> bool:
    return Path("/proc", name.removeprefix(f"{PREFIX}-").partition(".")[0]).exists()


def _remove(name: str) -> None:
    if not Path("/run/netns", name).exists():
        return
    until_s = time.monotonic() + PATIENCE_S
    while (pids := _processes(name)) and time.monotonic() < until_s:
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.02)
    deleted = subprocess.run(["ip", "netns", "delete", name], capture_output=True, text=True, timeout=PATIENCE_S)
    if Path("/run/netns", name).exists():  # else another owner's sweep was first
        deleted.check_returncode()


def _processes(name: str) -> list[int]:
    """List what still runs in a namespace; a zombie holds no network any more, so it isn't listed."""
    found = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, timeout=PATIENCE_S)
    if Path("/run/netns", name).exists():
        found.check_returncode()
    return [int(pid) for pid in found.stdout.split()]
