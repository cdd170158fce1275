"""What runs below a keeper: it ends as without one, and all of it ends with who started it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from bbflow.run import keeper
from testsupport.waiting import until

SHM = Path("/dev/shm")
STARTS = """
import subprocess, sys, time
program = subprocess.Popen([sys.executable, sys.argv[1], str(__import__("os").getpid()), "2", *sys.argv[2:]])
print(program.pid, flush=True)
time.sleep(600)
"""
FAMILY = "(sh -c 'trap \"\" TERM; while :; do sleep 0.1; done' &) ; setsid sleep 600 & echo up; wait"
RANKS = """
#include <cstdio>
#include <mpi.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
    {
        puts("up");
        fflush(stdout);
    }
    sleep(600);
}
"""
BIN = Path(sys.executable).parent


def ignore_sigint():
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def keep(*command):
    """Start a keeper as a script does in the background: with SIGINT ignored."""
    told = os.open(os.devnull, os.O_WRONLY)
    words = [sys.executable, "-I", "-S", keeper.__file__, str(os.getpid()), str(told), *map(str, command)]
    try:
        return subprocess.Popen(words, stdout=subprocess.PIPE, text=True, pass_fds=[told], preexec_fn=ignore_sigint)
    finally:
        os.close(told)


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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_ends_a_script_ends_what_it_runs(number):
    with keep("sh", "-c", "sh -c 'echo up; exec sleep 600'; exit 0") as process:
        assert process.stdout.readline() == "up\n"
        family = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(number)
        process.wait(300)
        psutil.wait_procs(family, timeout=300)
        assert [member for member in family if member.is_running()] == []


def test_all_that_a_program_has_started_ends_with_a_killed_parent(tmp_path):
    """Orphans, other sessions, and who ignores SIGTERM."""
    words = [sys.executable, "-c", STARTS, keeper.__file__, "sh", "-c", FAMILY]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as parent:
        kept = psutil.Process(int(parent.stdout.readline()))
        assert parent.stdout.readline() == "up\n"
        until(lambda: len(kept.children(recursive=True)) >= 3)
        family = [kept, *kept.children(recursive=True)]
        parent.kill()
    psutil.wait_procs(family, timeout=300)
    assert [process for process in family if process.is_running()] == []


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    """A program of MPI that says when it is up, and stays."""
    folder = tmp_path_factory.mktemp("ranks")
    (folder / "ranks.cpp").write_text(RANKS)
    subprocess.run([BIN / "mpicxx", folder / "ranks.cpp", "-o", folder / "ranks"], check=True)
    return folder / "ranks"


def segments_of(launcher):
    began_s = int(psutil.Process(launcher).create_time())
    worlds = set(keeper.worlds(launcher, began_s))
    return [path for path in SHM.glob("mpich_*") if path.name.split("_")[2] in worlds]


@pytest.mark.parametrize("shell", [[], ["sh", "-c", '"$@"; exit 1', "sh"]], ids=["mpiexec", "a script"])
def test_segments_of_killed_ranks_go_and_those_of_other_jobs_stay(ranks, shell):
    command = [BIN / "mpiexec", "-n", "2", ranks]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdout.readline() == "up\n"
            with keep(*shell, *command) as process:
                assert process.stdout.readline() == "up\n"
                kept = psutil.Process(process.pid)
                if shell:  # it looks for launchers at its own pace, and waits between two looks
                    waited = kept.num_ctx_switches().voluntary
                    until(lambda: kept.num_ctx_switches().voluntary >= waited + 2)
                family = kept.children(recursive=True)
                (launcher,) = (member.pid for member in family if member.name() == "mpiexec")
                ours = segments_of(launcher)
                assert ours
                for member in family:
                    member.kill()
                process.wait(300)
            assert not [path for path in ours if path.exists()]
            assert other.poll() is None
            assert segments_of(other.pid)
        finally:
            other.terminate()
