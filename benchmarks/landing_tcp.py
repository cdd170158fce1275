"""Landing over TCP: 64 MiB steps to a node through its TCP socket, against a plain socket copy of as many bytes."""

import json
import mmap
import multiprocessing
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import bbflow_adios2

from bbflow.landing.client import NodeClient
from bbflow.landing.contact import NodeAddress
from bbflow.landing.embedded import EmbeddedNodes
from benchmarks.rows import Row

STEP_BYTES = 64 << 20
WRITER = Path(__file__).parent / "landing_writer.py"


def _free_steps(node: NodeAddress, steps: int) -> None:
    """Be the consumer for which a step is done as soon as it is there."""
    with NodeClient(node) as client:
        epoch = client.request("attach", stream="field", consumers=["bench"])["epoch"]
        change, last = -1, -1
        while last < steps - 1:
            shown = client.request("watch", 5.0, stream="field", after=last, change=change, limit=100)
            change = shown["change"]
            if shown["last"] > last:
                last = shown["last"]
                keys = {"stream": "field", "consumer": "bench", "epoch": epoch, "checkpoint": b""}
                client.request("done", step=last, **keys)


def _through_bbflow(folder: Path, steps: int, transport: str) -> dict[str, list[float]]:
    with EmbeddedNodes(1, 640 << 20) as nodes:
        consumer = threading.Thread(target=_free_steps, args=(nodes.nodes[0], steps))
        consumer.start()
        config = folder / "adios2.xml"
        config.write_text(bbflow_adios2.engine_xml("field", Transport=transport))
        command = [sys.executable, str(WRITER), str(config), "out", str(steps)]
        environment = os.environ | bbflow_adios2.environment(nodes.contact)
        done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE)
        consumer.join()
    times: dict[str, list[float]] = json.loads(done.stdout.splitlines()[-1])
    return times


def _receive(listener: socket.socket, steps: int) -> None:
    """Take steps into memory that is there already, as a node's pool is."""
    with tempfile.TemporaryFile(dir="/dev/shm") as file:
        file.truncate(STEP_BYTES)
        memory = memoryview(mmap.mmap(file.fileno(), STEP_BYTES))
        memory[:] = bytes(STEP_BYTES)
        peer, _ = listener.accept()
        for _ in range(steps):
            have = 0
            while have < STEP_BYTES:
                have += peer.recv_into(memory[have:])
            peer.sendall(b"!")


def _plain_copy(steps: int) -> list[float]:
    """Seconds for each step."""
    listener = socket.create_server(("127.0.0.1", 0))
    receiver = multiprocessing.get_context("fork").Process(target=_receive, args=(listener, steps))
    receiver.start()
    data, times = os.urandom(STEP_BYTES), []
    with socket.create_connection(listener.getsockname()) as sender:
        for _ in range(steps):
            begun = time.perf_counter()
            sender.sendall(data)
            sender.recv(1)
            times.append(time.perf_counter() - begun)
    receiver.join()
    return times


def measure(*, quick: bool) -> list[Row]:
    """Measure in turns, so that a busy moment of the machine hits both; ratios are to the plain copy."""
    rounds, steps = (2, 20) if quick else (4, 40)
    plain: list[float] = []
    puts: list[float] = []
    with tempfile.TemporaryDirectory(prefix="bbflow-bench-") as name:
        for _ in range(rounds):
            plain += _plain_copy(steps)[steps // 4 :]
            puts += _through_bbflow(Path(name), steps, "tcp")["put"][steps // 4 :]
    copy, put = statistics.median(plain), statistics.median(puts)
    gigabytes = STEP_BYTES / 1e9
    return [
        Row("bbflow over TCP on loopback: Put to EndStep", gigabytes / put, "GB/s", copy / put),
        Row("plain socket copy into warm memory (the ratio's 1)", gigabytes / copy, "GB/s", 1.0),
    ]
