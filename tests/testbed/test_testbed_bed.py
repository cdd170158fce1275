import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from benchmarks.testbed.bed import TooSlowError, hpc_application
from benchmarks.testbed.bed import test_bed as the_bed
from benchmarks.testbed.needs import missing
from benchmarks.testbed.shaping import CAP_BYTES_PER_S
from testsupport import namespaces

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.xdist_group("network namespaces")
KEY, SIZE_BYTES = "inputs/one", 8 << 20
MOST_BYTES_PER_S = 1.05 * CAP_BYTES_PER_S
"""The cap, and what the link's bucket lets through at once; two capacities would be nearly twice the cap."""
PATIENCE_S = 300


def left_behind():
    listed = subprocess.run(["ip", "netns", "list"], check=True, capture_output=True, text=True).stdout
    names = [*listed.splitlines(), *(path.name for path in namespaces.MEMORY.iterdir())]
    return [name for name in names if name.startswith(namespaces.PREFIX)]


def owned_by(tag, name):
    return f"-{tag.partition('.')[0]}." in name


@pytest.fixture(scope="module", autouse=True)
def _possible():
    """Ask the kernel here: each process that collects tests would make hosts of its own for it."""
    if reason := missing():
        pytest.skip(reason)


@pytest.fixture(scope="module")
def bed():
    with the_bed([KEY], SIZE_BYTES) as bed:
        yield bed


@pytest.fixture
def filled(bed):
    """The bytes per second of readers that fill the link; a machine too busy for that can't show what a cap does."""
    try:
        return bed.probe(KEY)
    except TooSlowError as error:
        pytest.skip(str(error))


def test_readers_fill_the_link_and_no_more(filled):
    assert filled <= MOST_BYTES_PER_S


@contextmanager
def reading(bed):
    """Four readers for as long as the block lasts: when they began, and afterwards their bytes and when they ended."""
    with bed.start("compute", "probe", KEY, "4", "while-open") as process:
        try:
            known = [json.loads(process.stdout.readline())]
            yield known
            known += json.loads(process.communicate(timeout=PATIENCE_S)[0])
        finally:
            process.kill()


@pytest.mark.slow
def test_reading_and_writing_share_one_capacity(bed, filled, tmp_path):
    """Not a matter of speed: what both moved within the readers' life is bounded, on a busy machine too."""
    phase_bytes = 80 << 20
    with hpc_application(bed, phase_bytes, 0.1, tmp_path) as hpc, reading(bed) as known:
        while not hpc.phases or hpc.phases[-1][0] < known[0]:
            hpc.await_phases(1)
        hpc.await_phases(1)
    begun_s, read_bytes, ended_s = known
    within = [phase for phase in hpc.phases if begun_s <= phase[0] and phase[1] <= ended_s]
    assert read_bytes
    assert len(within) >= 2
    assert read_bytes + len(within) * phase_bytes <= MOST_BYTES_PER_S * (ended_s - begun_s)


def test_phases_are_announced_while_they_last(bed, tmp_path):
    with hpc_application(bed, 16 << 20, 0.05, tmp_path) as hpc:
        seen = set()
        until_s = time.monotonic() + PATIENCE_S
        while seen != {0, 1} and time.monotonic() < until_s:
            seen.add(len(list(tmp_path.glob("*.phase"))))
        hpc.await_phases(1)
    assert seen == {0, 1}
    assert not list(tmp_path.glob("*.phase"))


def test_a_link_below_the_cap_is_refused_with_the_numbers(bed):
    change = "tc class change dev both parent 1: classid 1:1 htb burst 256k cburst 256k rate"
    bed.hosts.run("storage", f"{change} 400mbit")
    try:
        with pytest.raises(TooSlowError, match=r"\d+ MB/s of the link's 100, and 80% is needed"):
            bed.probe(KEY)
    finally:
        bed.hosts.run("storage", f"{change} 800mbit")


def test_an_error_of_a_part_is_an_error_of_the_bed(bed, capfd):
    with pytest.raises(RuntimeError, match="probe on compute ended with 1"):
        bed.run("compute", "probe", "inputs/none", "1")
    assert "inputs/none" in capfd.readouterr().err


def lose_the_server(board):
    with the_bed([KEY], SIZE_BYTES) as bed, hpc_application(bed, 16 << 20, 0.1, board) as hpc:
        hpc.await_phases(1)
        for pid in namespaces._processes(bed.hosts.name("storage")):
            with suppress(ProcessLookupError):  # it ended with another one
                os.kill(pid, signal.SIGKILL)
        hpc.await_phases(50)


def test_an_hpc_application_that_loses_its_server_is_an_error(tmp_path):
    with pytest.raises(RuntimeError, match="HPC application died"):
        lose_the_server(tmp_path)


SETS_UP = """
import sys, time
from benchmarks.testbed.measuring import ended_by_signal
from benchmarks.testbed.address import HOSTS
from testsupport.namespaces import folder_in_memory, joined_hosts
import subprocess
with ended_by_signal(), joined_hosts(HOSTS) as hosts:
    within = subprocess.Popen(hosts.inside("compute", "sh", "-c", "echo; exec sleep 1000"), stdout=subprocess.PIPE)
    within.stdout.readline()
    with folder_in_memory():
        print(hosts.tag, flush=True)
        time.sleep(1000)
"""


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_takes_everything_down(how):
    command = [sys.executable, "-c", SETS_UP]
    owner = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT)
    tag = owner.stdout.readline().decode().strip()
    assert any(owned_by(tag, name) for name in left_behind())
    owner.send_signal(how)
    owner.wait(PATIENCE_S)
    owner.stdout.close()
    assert not any(owned_by(tag, name) for name in left_behind())


def test_what_a_killed_owner_left_goes_with_the_next_bed():
    owner = subprocess.Popen([sys.executable, "-c", SETS_UP], stdout=subprocess.PIPE, cwd=ROOT)
    tag = owner.stdout.readline().decode().strip()
    pids = namespaces._processes(namespaces.Hosts(tag).name("compute"))
    assert pids
    assert any(owned_by(tag, name) for name in left_behind())
    owner.kill()
    owner.wait(PATIENCE_S)
    owner.stdout.close()
    namespaces.sweep()
    assert not any(owned_by(tag, name) for name in left_behind())
    assert not any(Path(f"/proc/{pid}/exe").exists() for pid in pids)


def test_the_bed_of_a_living_owner_stays(bed):
    namespaces.sweep()
    assert sum(f"-{bed.hosts.tag}-" in name for name in left_behind()) == 4
    assert bed.folder.exists()
