"""Programs that are forked from a warm process are, to all who look, as those of an interpreter of their own."""

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from testsupport import forks
from testsupport.processes import finish, running, words_of
from testsupport.waiting import until
from testsupport.warm import warm_servers
from testsupport.writers import LAUNCHED

SHOWS = """
import json, os, resource, signal, sys, threading
print(json.dumps({
    "parent": os.getppid(), "words": sys.argv, "original": sys.orig_argv, "cwd": os.getcwd(), "path": sys.path,
    "environment": dict(os.environ), "session": os.getsid(0) == os.getpid(), "files": os.listdir("/proc/self/fd"),
    "name": __name__, "main": sys.modules["__main__"].__dict__ is globals(), "input": sys.stdin.read(),
    "signals": [str(signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGTERM)],
    "limits": resource.getrlimit(resource.RLIMIT_NOFILE), "threads": threading.active_count(),
    "streams": [
        (each.name, each.mode, each.seekable(), each.isatty(), each.encoding, each.errors, each.line_buffering,
         each.write_through, each.buffer.mode, str(type(each.buffer)), each is getattr(sys, f"__{each.name[1:-1]}__"))
        for each in (sys.stdin, sys.stdout, sys.stderr)],
    "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
}))
"""
ENDS = {
    "well": "import atexit; atexit.register(print, 'last'); print('first')",
    "by a number": "raise SystemExit(300)",
    "by a word": "raise SystemExit('no')",
    "by an error": "def f():\n    1 / 0\nf()",
    "by a wrong word": "import = 1",
    "by an interrupt": "import atexit; atexit.register(print, 'last'); print('first'); raise KeyboardInterrupt",
    "by a signal": "import os; os.kill(os.getpid(), 15)",
    "with a thread": "import threading, time; threading.Thread(target=lambda: print(time.sleep(0.1))).start()",
    "with what it holds": "class Held:\n    def __del__(self):\n        print('let go')\nheld = Held()",
    "with nobody to hear": "import os, sys; os.close(1); print('lost')",
}

ENDLESS = """
import subprocess, sys, time
from pathlib import Path

def test_it():
    subprocess.check_call([sys.executable, "-c", ""])
    Path("there").touch()
    time.sleep(100)
"""


def both_ways(words, **options):
    """Run a program in a fork and by itself; return what came of both."""
    ends = []
    for start in (forks.Popen, forks.COLD):
        with start([sys.executable, *map(str, words)], stdout=-1, stderr=-1, stdin=-1, text=True, **options) as process:
            said = process.communicate("what it reads", timeout=60)
        ends.append((process.returncode, *said))
    return ends


@pytest.fixture(scope="module")
def servers():
    """Provide warm processes of this process as it is now: what tests before have changed of it, no fork would have."""
    found = warm_servers()
    yield found
    for server in found:
        server.close()


@pytest.fixture(autouse=True)
def _forks(request, monkeypatch):
    if request.config.option.cold:
        pytest.skip("nothing is forked with --cold")
    if request.node.get_closest_marker("cold") is None:
        monkeypatch.setattr(forks.Popen, "servers", request.getfixturevalue("servers"))


@pytest.mark.parametrize("kind", ["code", "script", "module"])
@pytest.mark.parametrize("alone", [False, True])
def test_a_fork_is_shown_what_a_new_interpreter_is(kind, alone, tmp_path):
    (tmp_path / "shows.py").write_text(SHOWS)
    words = {"code": ["-c", SHOWS], "script": [tmp_path / "shows.py"], "module": ["-m", "shows"]}[kind]
    environment = os.environ | {"OWN": "1"}
    fork, own = both_ways([*words, "a word"], cwd=tmp_path, env=environment, start_new_session=alone)
    assert fork[0] == own[0] == 0, fork[2] + own[2]
    assert json.loads(fork[1]) == json.loads(own[1])


@pytest.mark.parametrize("how", ENDS)
def test_a_fork_ends_as_a_new_interpreter_does(how):
    fork, own = both_ways(["-c", ENDS[how]])
    assert fork == own


def test_others_find_a_fork_by_its_words_and_its_end_is_told():
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)", "its-name"])
    assert isinstance(process, forks.Popen)
    until(lambda: "its-name" in psutil.Process(process.pid).cmdline())
    assert process.pid in [child.pid for child in psutil.Process().children()]
    process.kill()
    assert process.wait() == -signal.SIGKILL


ONE_FAILS = """
import os, sys, time
if os.environ["PMI_RANK"] != "1":
    time.sleep(100)
print("1 of", os.environ["PMI_SIZE"], sys.argv)
sys.exit(3)
"""


def test_ranks_end_when_one_of_them_fails():
    for code, said, _ in both_ways([LAUNCHED, 3, ONE_FAILS, "a word"]):
        assert (code, said) == (3, "1 of 3 ['-c', 'a word']\n")


def test_ranks_end_with_what_has_launched_them():
    with subprocess.Popen([sys.executable, LAUNCHED, "2", "import time; time.sleep(100)"]) as launched:
        until(lambda: len(psutil.Process(launched.pid).children()) == 2)
        ranks = psutil.Process(launched.pid).children()
        launched.kill()
    until(lambda: not any(rank.is_running() and rank.status() != psutil.STATUS_ZOMBIE for rank in ranks))


ANEW = {
    "a variable": {"env": os.environ | {"PYTHONHASHSEED": "0"}},
    "a variable less": {"env": {}},
    "a limit": {"preexec_fn": lambda: None},
    "a umask": {"umask": 0o77},
    "a group": {"process_group": 0},
}


def has_numpy(**options):
    code = "import sys; print('numpy' in sys.modules)"
    return eval(subprocess.run([sys.executable, "-c", code], stdout=-1, text=True, check=True, **options).stdout)


@pytest.mark.parametrize("what", ANEW)
def test_what_a_fork_would_not_have_starts_a_new_interpreter(what):
    assert has_numpy()
    assert not has_numpy(**ANEW[what])


def test_what_pytest_has_changed_of_itself_starts_a_new_interpreter():
    umask = os.umask(0o77)
    try:
        assert not has_numpy()
    finally:
        os.umask(umask)
    handler = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert not has_numpy()
    finally:
        signal.signal(signal.SIGHUP, handler)
    assert has_numpy()


def test_a_program_does_not_hear_interrupts_where_pytest_does_not():
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        fork, own = both_ways(["-c", "import signal; print(signal.getsignal(signal.SIGINT).name)"])
    finally:
        signal.signal(signal.SIGINT, handler)
    assert fork == own == (0, "SIG_IGN\n", "")


def test_forks_draw_other_numbers():
    code = "import random; import numpy; print(random.random(), numpy.random.rand())"
    a, b = (subprocess.check_output([sys.executable, "-c", code], text=True).split() for _ in range(2))
    assert a[0] != b[0]
    assert a[1] != b[1]


def test_what_a_run_starts_in_its_turn_is_a_fork_too(tmp_path):
    config = {"stream": "a", "output": "out", "operators": {"x": ["mean"]}, "nodes": {"capacity": "1MiB"}}
    (tmp_path / "run.json").write_text(json.dumps(config))
    words = [sys.executable, "-m", "bbflow", "run", "run.json", "--no-report", "--", "sleep", "100"]
    with running(words, cwd=tmp_path) as process:
        family = psutil.Process(process.pid)
        (node,) = until(lambda: [child for child in family.children() if "node" in words_of(child)], of=process)
        maps = Path(f"/proc/{node.pid}/maps").read_text()
        process.send_signal(signal.SIGINT)
        finish(process)
    assert "pandas" in maps, "it doesn't import this"


def test_programs_that_threads_start_at_once_from_several_warm_processes_are_all_children_of_this_one():
    environments = [server._environment for server in forks.Popen.servers[:2]]

    def end_of(environment):
        return subprocess.run([sys.executable, "-c", "exit(7)"], env=environment, check=False).returncode

    with ThreadPoolExecutor(4) as threads:
        assert set(threads.map(end_of, 50 * environments)) == {7}  # the end of what isn't a child can't be had


def test_a_warm_process_that_has_ended_is_told_and_begun_again():
    assert has_numpy()
    server = forks.Popen.servers[0]
    server.process.kill()
    server.process.wait()
    with pytest.raises((ValueError, OSError)):
        has_numpy()
    assert has_numpy()


def test_warm_processes_end_with_pytest_even_if_it_is_killed(tmp_path):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_warm_programs.py").write_text(ENDLESS)
    words = ["-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", "-p", "testsupport.warm", "tests"]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent.parent)}
    process = forks.COLD([sys.executable, *words], cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL)
    with process:
        try:
            until(lambda: (tmp_path / "there").exists())
            family = psutil.Process(process.pid).children()
            servers = [child for child in family if "warm_server" in str(words_of(child))]
        finally:
            process.kill()
    assert len(servers) == 1
    until(lambda: not any(server.is_running() for server in servers))


@pytest.mark.cold
def test_a_marked_test_starts_new_interpreters():
    assert not has_numpy()


def test_a_script_that_is_not_there_is_told_as_ever():
    fork, own = both_ways([Path("nowhere.py")])
    assert fork == own
    assert fork[0] == 2
