"""Control plane: commits per second of one agent and its CPU time, with 100 real and 1,000 simulated writers."""

import os
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import bbflow_adios2
import psutil

from bbflow.landing.agent import Agent
from bbflow.landing.embedded import EmbeddedNodes
from bbflow.landing.replies import RoomReply
from bbflow.landing.requests import parse_request
from bbflow.net.frames import pack
from bbflow.store.extents import Extent
from bbflow.store.node import NodeStore
from benchmarks.consumer import free_steps
from benchmarks.rows import Row

WRITERS = 100
SIMULATED = 1000
PAGE = 4096
WRITER = Path(__file__).parent / "control_writer.py"
OPEN = {
    "op": "open", "stream": "field", "policy": "Block", "transport": "shm", "host": "h", "pid": 1,
    "open_timeout_s": 60.0, "loss_timeout_s": 60.0, "settled": -1, "resume": False, "moved_from": "",
}  # fmt: skip


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _real(steps: int) -> tuple[float, float]:
    """Land tiny steps of real writers; return seconds and the agent's CPU seconds, from when all have begun."""
    with tempfile.TemporaryDirectory(prefix="bbflow-bench-") as name, EmbeddedNodes(1, 64 << 20) as nodes:
        config = Path(name) / "adios2.xml"
        config.write_text(bbflow_adios2.engine_xml("field"))
        agent = next(child for child in psutil.Process().children() if _serves(child))
        consumer = threading.Thread(target=free_steps, args=(nodes.nodes[0], "field", steps + 1))
        consumer.start()
        environment = os.environ | bbflow_adios2.environment(nodes.contact)
        writers = [
            subprocess.Popen(
                [sys.executable, str(WRITER), str(config), str(steps)],
                env=environment | {"PMI_RANK": str(rank), "PMI_SIZE": str(WRITERS)},
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            )
            for rank in range(WRITERS)
        ]  # fmt: skip
        for writer in writers:
            writer.stdout.readline()  # it has landed its first step
        begun_s, used_s = time.perf_counter(), _cpu_s(agent)
        for writer in writers:
            writer.stdin.close()
        for writer in writers:
            writer.stdout.readline()
        ended_s, spent_s = time.perf_counter() - begun_s, _cpu_s(agent) - used_s
        for writer in writers:
            writer.wait()
        consumer.join()
    return ended_s, spent_s


def _serves(process: psutil.Process) -> bool:
    return any("bbflow" in word for word in process.cmdline())


class _Simulation:
    """An agent that is spoken to in messages, by ranks which each wait for their reply."""

    def __init__(self, directory: Path) -> None:
        # One page for each rank: every step waits until the one before it is done with.
        self.store = NodeStore(directory, SIMULATED * PAGE)
        self.agent = Agent(self.store, "bb0", "h", time.time)
        self.extents: dict[int, Sequence[Extent]] = {}
        for rank in range(SIMULATED):
            self.say(rank, OPEN | {"rank": rank, "writers": SIMULATED, "local_writers": SIMULATED})
        self.say(-1, {"op": "attach", "stream": "field", "consumers": ["bench"]})
        for rank in range(SIMULATED):
            self.begin(rank, 0)

    def say(self, peer: int, message: dict) -> None:
        asked = parse_request(pack(message))
        for to, reply in self.agent.handle(peer, asked):
            if isinstance(reply, RoomReply):
                self.extents[to] = reply.extents

    def begin(self, rank: int, number: int) -> None:
        self.say(rank, {"op": "begin", "step": number, "bytes": PAGE})

    def commit(self, rank: int, number: int) -> None:
        ((offset, _),) = self.extents[rank]
        forms = {} if number else {"forms": [["v", "double", "LocalArray", [], [], [8], rank, 0, 0, 64, False]]}
        content = {"layout": 0, "sources": struct.pack("<q", offset), "files": [], "values": [], "extremes": bytes(16)}
        rest = {"attributes": [], "open_s": 0.0, "waited_s": 0.0}
        self.say(rank, {"op": "commit", "step": number, **forms, **content, **rest})

    def step(self, number: int) -> None:
        """Commit for each rank, and ask for its next step, which none gets before this one is done with."""
        for rank in range(SIMULATED):
            self.commit(rank, number)
            self.begin(rank, number + 1)
        done = {"op": "done", "stream": "field", "consumer": "bench", "epoch": 1, "checkpoint": b""}
        self.say(-1, done | {"step": number})


def _simulated(steps: int) -> tuple[float, float]:
    """Land tiny steps of simulated ranks, all of which wait; return seconds and CPU seconds."""
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="bbflow-bench-") as name:
        simulation = _Simulation(Path(name) / "node")
        simulation.step(0)
        begun_s, used_s = time.perf_counter(), time.process_time()
        for number in range(1, steps + 1):
            simulation.step(number)
        ended_s, spent_s = time.perf_counter() - begun_s, time.process_time() - used_s
        simulation.store.close()
    return ended_s, spent_s


def measure(*, quick: bool) -> list[Row]:
    """Measure; ratios are to the CPU time of a commit with real writers."""
    steps = 20 if quick else 100
    real_s, real_cpu_s = _real(steps)
    simulated_s, simulated_cpu_s = _simulated(3 if quick else 20)
    commits, simulated = WRITERS * steps, SIMULATED * (3 if quick else 20)
    per_commit_s = real_cpu_s / commits
    return [
        Row(f"{WRITERS} writers: commits", commits / real_s, "1/s"),
        Row(f"{WRITERS} writers: the agent's CPU time of a commit", 1e6 * per_commit_s, "us", 1.0),
        Row(f"{SIMULATED} simulated writers, no sockets: commits", simulated / simulated_s, "1/s"),
        Row(
            f"{SIMULATED} simulated writers, no sockets: the agent's CPU time of a commit",
            1e6 * simulated_cpu_s / simulated, "us", simulated_cpu_s / simulated / per_commit_s,
        ),
    ]  # fmt: skip
