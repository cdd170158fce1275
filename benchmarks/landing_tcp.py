"""Landing over TCP: 64 MiB steps from one host to a node on another, against a plain socket copy of as many bytes.

The same by libfabric over TCP, where it is here, with the CPU time of both.
"""

import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import bbflow_adios2
import psutil

from bbflow.errors import NodeError
from bbflow.host.belongings import remove
from bbflow.host.waiting import until
from bbflow.landing.embedded import make_scratch
from bbflow.landing.fabric import providers
from bbflow.net.contact import NodeAddress, read_contact
from benchmarks.consumer import free_steps
from benchmarks.rows import Row
from testsupport.namespaces import joined_hosts, missing

STEP_BYTES = 64 << 20
HERE = Path(__file__).parent
ADDRESSES = {"compute": "10.77.0.1", "bbn": "10.77.0.2"}
OVER_TCP = "tcp;ofi_rxm"
"""libfabric's provider that every host can have."""


@dataclass
class Landed:
    """What came of some runs."""

    times: list[float] = field(default_factory=list)
    """Seconds of each step, from Put to EndStep, without the first of each run."""
    cpu_s: float = 0.0
    """Of writer and node."""
    steps: int = 0
    """All of them."""

    @property
    def bytes_per_s(self) -> float:
        """Of the median step."""
        return STEP_BYTES / statistics.median(self.times)

    @property
    def cpu_s_per_gb(self) -> float:
        """CPU seconds for each GB."""
        return self.cpu_s / (self.steps * STEP_BYTES / 1e9)


@dataclass(frozen=True)
class Place:
    """Where both sides run."""

    name: str
    """For the table."""
    inside: Callable[..., list[str]]
    """Returns the command that runs words on a host."""
    address: str
    """Where the node listens."""


@contextmanager
def place() -> Iterator[Place]:
    """Yield two network namespaces, or where there can be none, this host's loopback."""
    if missing():
        yield Place("on loopback", lambda _, *words: list(words), "127.0.0.1")
        return
    with joined_hosts(ADDRESSES) as hosts:
        yield Place("between two namespaces", hosts.inside, ADDRESSES["bbn"])


def _through_bbflow(where: Place, folder: Path, steps: int, landed: Landed, **parameters: str) -> None:
    root, contact = make_scratch(Path("/dev/shm")), folder / "contact.json"
    words = ["-m", "bbflow", "node", "--name", "bb0", "--directory", str(root), "--capacity", "640MiB"]
    words += ["--contact", str(contact), "--listen", where.address]
    with (folder / "node.log").open("wb") as file:
        node = subprocess.Popen(where.inside("bbn", sys.executable, *words), stdout=file, stderr=file)
    try:
        address = _wait_for_node(contact)
        before_s = _cpu_s(node)
        consumer = threading.Thread(target=free_steps, args=(address, "field", steps))
        consumer.start()
        config = folder / "adios2.xml"
        config.write_text(bbflow_adios2.engine_xml("field", **parameters))
        writer = [sys.executable, str(HERE / "landing_writer.py"), str(config), "out", str(steps)]
        environment = os.environ | bbflow_adios2.environment(contact)
        done = subprocess.run(
            where.inside("compute", *writer), env=environment, check=True, stdout=subprocess.PIPE
        )  # fmt: skip
        consumer.join()
        node_s = _cpu_s(node) - before_s
    finally:
        node.terminate()
        node.wait()
        remove(root)
    told: dict[str, list[float]] = json.loads(done.stdout.splitlines()[-1])
    landed.times += told["put"][steps // 4 :]
    landed.cpu_s += node_s + sum(told["cpu"])
    landed.steps += steps


def _cpu_s(process: "subprocess.Popen[bytes]") -> float:
    spent = psutil.Process(process.pid).cpu_times()
    return float(spent.user + spent.system)


def _wait_for_node(contact: Path) -> NodeAddress:
    """Return the node as this process reaches it: by its Unix socket, since the directory is shared."""
    (node,) = until(lambda: _nodes(contact), 60)
    return replace(node, host=socket.gethostname())


def _nodes(contact: Path) -> tuple[NodeAddress, ...]:
    with suppress(NodeError):  # the file is there before its first node
        return read_contact(contact)
    return ()


def _plain_copy(where: Place, steps: int) -> list[float]:
    program = [sys.executable, str(HERE / "socket_copy.py")]
    receiver = subprocess.Popen(
        where.inside("bbn", *program, "receive", where.address, str(steps)), stdout=subprocess.PIPE, text=True
    )
    with receiver:
        assert receiver.stdout is not None
        port = receiver.stdout.readline().strip()
        words = where.inside("compute", *program, "send", where.address, port, str(steps))
        done = subprocess.run(words, check=True, stdout=subprocess.PIPE)
    times: list[float] = json.loads(done.stdout)
    return times


def measure(*, quick: bool) -> list[Row]:
    """Measure in turns, so that a busy moment hits all; ratios are to the plain copy, those of CPU time to TCP."""
    rounds, steps = (2, 20) if quick else (4, 40)
    plain: list[float] = []
    ways = {"over TCP": {"Transport": "tcp"}}
    with suppress(NodeError):
        if OVER_TCP in providers(slow=True):
            ways[f"by libfabric ({OVER_TCP})"] = {"Transport": "fabric", "FabricProvider": OVER_TCP}
    landed = {name: Landed() for name in ways}
    with place() as where, tempfile.TemporaryDirectory(prefix="bbflow-bench-") as folder:
        for _ in range(rounds):
            plain += _plain_copy(where, steps)[steps // 4 :]
            for name, parameters in ways.items():
                _through_bbflow(where, Path(folder), steps, landed[name], **parameters)
    copy = STEP_BYTES / statistics.median(plain)
    tcp = landed["over TCP"].cpu_s_per_gb
    rows = [
        row
        for name, way in landed.items()
        for row in (
            Row(f"bbflow {name} {where.name}: Put to EndStep", way.bytes_per_s / 1e9, "GB/s", way.bytes_per_s / copy),
            Row("the same, CPU time of writer and node", way.cpu_s_per_gb, "s/GB", way.cpu_s_per_gb / tcp),
        )
    ]
    return [*rows, Row(f"plain socket copy {where.name} (the ratio's 1)", copy / 1e9, "GB/s", 1.0)]
