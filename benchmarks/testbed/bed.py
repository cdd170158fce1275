"""The whole test bed: hosts, the shaped link, the server with the job's inputs, and the parts that run on the hosts."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.testbed.address import HOSTS
from benchmarks.testbed.server import serving
from benchmarks.testbed.shaping import CAP_BYTES_PER_S, make_half_duplex
from testsupport.namespaces import Hosts, folder_in_memory, joined_hosts

ROOT = Path(__file__).parents[2]
NEEDED_SHARE = 0.8
"""Of the link's cap; below it something else than the link is the bottleneck, and figures would mean nothing."""
PART_S = 180.0
"""No part of the bed may take longer."""


class TooSlowError(RuntimeError):
    """The probe doesn't reach the share of the cap that the figures need."""


@dataclass(frozen=True)
class Bed:
    """A bed that is up."""

    hosts: Hosts
    """Its namespaces."""
    folder: Path
    """In memory; BB storage and boards go below."""
    bucket: Path
    """The server's directory: each object is a file in it, if the server is versitygw."""

    def start(self, host: str, module: str, *words: str) -> "subprocess.Popen[str]":
        """Start a part (`python -m benchmarks.testbed.<module>`) on a host, its input and output as pipes."""
        command = self.hosts.inside(host, sys.executable, "-m", f"benchmarks.testbed.{module}", *words)
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT, start_new_session=True)

    def run(self, host: str, module: str, *words: str) -> str:
        """Run a part to its end and return what it printed; an error of the part is an error here."""
        process = self.start(host, module, *words)
        try:
            said, _ = process.communicate(timeout=PART_S)
        finally:
            end(process)
        if process.returncode:
            raise RuntimeError(f"{module} on {host} ended with {process.returncode}; its last words are above")
        return said

    def probe(self, key: str) -> float:
        """Return bytes per second that four readers get; raises `TooSlowError` below 80% of the cap."""
        begun_s, (received_bytes, ended_s) = map(json.loads, self.run("compute", "probe", key, "4").splitlines())
        rate: float = received_bytes / (ended_s - begun_s)
        if rate < NEEDED_SHARE * CAP_BYTES_PER_S:
            raise TooSlowError(
                f"four readers get {rate / 1e6:.0f} MB/s of the link's {CAP_BYTES_PER_S / 1e6:.0f}, and "
                f"{NEEDED_SHARE:.0%} is needed: this machine is too slow or too busy for the test bed"
            )
        return rate


def end(process: "subprocess.Popen[str]") -> None:
    """Kill a part with all that it has started: ranks that outlive it would hold its output open."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextmanager
def test_bed(keys: Sequence[str], size_bytes: int) -> Iterator[Bed]:
    """Set the bed up with objects of `size_bytes`; take everything down on the way out, whatever happened."""
    with (
        folder_in_memory() as name,
        joined_hosts(HOSTS) as hosts,
        serving(hosts) as bucket,
    ):
        make_half_duplex(hosts)
        bed = Bed(hosts, Path(name), bucket)
        bed.run("storage", "inputs", str(size_bytes), *keys)
        yield bed


@dataclass
class HpcApplication:
    """The HPC application while it runs."""

    process: "subprocess.Popen[str]"
    """Its coordinator."""
    phases: list[tuple[float, float]] = field(default_factory=list)
    """Begin and end of each phase that has ended, on the monotonic clock (s)."""

    def await_phases(self, number: int) -> None:
        """Wait until this many more phases have ended."""
        until_s, wanted = time.monotonic() + PART_S, len(self.phases) + number
        while len(self.phases) < wanted:
            if self.process.poll() is not None or time.monotonic() > until_s:
                raise RuntimeError(f"the HPC application died, or ended no {number} phases within {PART_S:.0f} s")
            time.sleep(0.02)


@contextmanager
def hpc_application(bed: Bed, phase_bytes: int, pause_s: float, board: Path) -> Iterator[HpcApplication]:
    """Run the HPC application beside the block; it ends with the phase that it is in."""
    words = ["--phase-bytes", str(phase_bytes), "--pause-s", str(pause_s), "--board", str(board)]
    process = bed.start("hpc", "writer", *words)
    application = HpcApplication(process)
    assert process.stdin is not None
    assert process.stdout is not None
    lines = process.stdout
    listener = threading.Thread(
        target=lambda: application.phases.extend((begin, end) for begin, end in map(json.loads, lines)), daemon=True
    )
    listener.start()
    try:
        yield application
        process.stdin.close()
        if process.wait(PART_S):
            raise RuntimeError(f"the HPC application ended with {process.returncode}; its last words are above")
    finally:
        end(process)
        listener.join(PART_S)
        process.stdin.close()
        lines.close()
