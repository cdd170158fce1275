"""Landing over TCP: 64 MiB steps from one host to a node on another, against a plain socket copy of as many bytes."""

import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import bbflow_adios2

from bbflow.errors import NodeError
from bbflow.host.belongings import remove
from bbflow.landing.embedded import make_scratch
from bbflow.net.contact import NodeAddress, read_contact
from benchmarks.consumer import free_steps
from benchmarks.namespaces import joined_hosts, missing
from benchmarks.rows import Row

STEP_BYTES = 64 << 20
HERE = Path(__file__).parent
ADDRESSES = {"compute": "10.77.0.1", "bbn": "10.77.0.2"}


@dataclass(frozen=True)
class Place:
    """Where both sides run."""

    name: str
    """For the table."""
    inside: Callable[..., list[str]]
    """Gives the command that runs words on a host."""
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


def _through_bbflow(where: Place, folder: Path, steps: int) -> list[float]:
    root, contact = make_scratch(Path("/dev/shm")), folder / "contact.json"
    words = ["-m", "bbflow", "node", "--name", "bb0", "--directory", str(root), "--capacity", "640MiB"]
    words += ["--contact", str(contact), "--listen", where.address]
    with (folder / "node.log").open("wb") as file:
        node = subprocess.Popen(where.inside("bbn", sys.executable, *words), stdout=file, stderr=file)
    try:
        consumer = threading.Thread(target=free_steps, args=(_wait_for_node(contact), "field", steps))
        consumer.start()
        config = folder / "adios2.xml"
        config.write_text(bbflow_adios2.engine_xml("field", Transport="tcp"))
        writer = [sys.executable, str(HERE / "landing_writer.py"), str(config), "out", str(steps)]
        environment = os.environ | bbflow_adios2.environment(contact)
        done = subprocess.run(
            where.inside("compute", *writer), env=environment, check=True, stdout=subprocess.PIPE
        )  # fmt: skip
        consumer.join()
    finally:
        node.terminate()
        node.wait()
        remove(root)
    times: list[float] = json.loads(done.stdout.splitlines()[-1])["put"]
    return times


def _wait_for_node(contact: Path) -> NodeAddress:
    """Return the node as this process reaches it: by its Unix socket, since the directory is shared."""
    deadline_s = time.monotonic() + 60
    while time.monotonic() < deadline_s:
        with suppress(NodeError):
            (node,) = read_contact(contact)
            return replace(node, host=socket.gethostname())
        time.sleep(0.02)
    raise NodeError(f"no node came into {contact}: see the log beside it")


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
    """Measure in turns, so that a busy moment of the machine hits both; ratios are to the plain copy."""
    rounds, steps = (2, 20) if quick else (4, 40)
    plain: list[float] = []
    puts: list[float] = []
    with place() as where, tempfile.TemporaryDirectory(prefix="bbflow-bench-") as name:
        for _ in range(rounds):
            plain += _plain_copy(where, steps)[steps // 4 :]
            puts += _through_bbflow(where, Path(name), steps)[steps // 4 :]
    copy, put = statistics.median(plain), statistics.median(puts)
    gigabytes = STEP_BYTES / 1e9
    return [
        Row(f"bbflow over TCP {where.name}: Put to EndStep", gigabytes / put, "GB/s", copy / put),
        Row(f"plain socket copy {where.name} (the ratio's 1)", gigabytes / copy, "GB/s", 1.0),
    ]
