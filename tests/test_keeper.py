"""What runs below a keeper: it ends as without one, and all of it ends with who started it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from bbflow import keeper

SHM = Path("/dev/shm")
STARTS = """
import subprocess, sys, time
program = subprocess.Popen([sys.executable, sys.argv[1], str(__import__("os").getpid()), "2", *sys.argv[2:]])
print(program.pid, flush=True)
time.sleep(600)
"""
FAMILY = "(sh -c 'trap \"\" TERM; while :; do sleep 0.1; done' &) ; setsid sleep 600 & echo up; wait"
MAPS = """
import mmap, sys, time
with open(sys.argv[1], "w+b") as file:
    file.truncate(4096)
    kept = mmap.mmap(file.fileno(), 4096)
print("mapped", flush=True)
time.sleep(float(sys.argv[2]))
"""


def keep(*command, **options):
    words = [sys.executable, "-I", "-S", keeper.__file__, str(os.getpid()), "2", *map(str, command)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True, **options)


def wait_until(condition):
    end_s = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 6", 6), ("kill -SEGV $$", -signal.SIGSEGV), ("kill $$", -signal.SIGTERM)]
)
def test_a_program_ends_as_without_a_keeper(script, code):
    with keep("sh", "-c", script) as process:
        assert process.wait(300) == code


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_reaches_the_program(number):
    script = f"trap 'echo got; exit 5' {number.name.removeprefix('SIG')}; echo up; while :; do sleep 0.05; done"
    with keep("sh", "-c", script) as process:
        assert process.stdout.readline() == "up\n"
        process.send_signal(number)
        assert process.wait(300) == 5


def test_all_that_a_program_has_started_ends_with_a_killed_parent(tmp_path):
    """Orphans, other sessions, and who ignores SIGTERM."""
    words = [sys.executable, "-c", STARTS, keeper.__file__, "sh", "-c", FAMILY]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as parent:
        kept = psutil.Process(int(parent.stdout.readline()))
        assert parent.stdout.readline() == "up\n"
        wait_until(lambda: len(kept.children(recursive=True)) >= 3)
        family = [kept, *kept.children(recursive=True)]
        parent.kill()
    psutil.wait_procs(family, timeout=300)
    assert [process for process in family if process.is_running()] == []


def test_segments_that_a_killed_program_had_mapped_go_and_others_stay():
    own, other = (SHM / f"mpich_shm_test{name}_{os.getpid()}" for name in ("own", "other"))
    other.touch()
    try:
        with keep(sys.executable, "-c", MAPS, own, 600) as process:
            assert process.stdout.readline() == "mapped\n"
            (program,) = psutil.Process(process.pid).children()
            time.sleep(3 * keeper.FIRST_LOOK_S)  # it looks at its own pace
            program.kill()
            process.wait(300)
        assert not own.exists()
        assert other.exists()
    finally:
        own.unlink(missing_ok=True)
        other.unlink()
