import os
import signal
import subprocess
import sys
from contextlib import suppress

import apps
import psutil
import pytest
from parsl import python_app
from parsl.data_provider.files import File
from parsl.providers import LocalProvider

join, write = python_app(apps.join), python_app(apps.write)


pytestmark = pytest.mark.usefixtures("workers_find_the_apps")


def file(path):
    return File(str(path))


def run(site, executor):
    """A small workflow: an input, an intermediate file and a result."""
    path = site.write("a.txt", "a")
    with site.load(executor):
        middle = join(inputs=[file(path), file(path)], outputs=[file(site.work / "aa.txt")])
        last = join(inputs=[middle.outputs[0], file(path)], outputs=[file(site.results / "aaa.txt")])
        last.outputs[0].result(400)
        return middle.result(), last.result()


def test_apps_hand_their_files_on_through_the_burst_buffer(site):
    found = run(site, site.htex())
    assert (site.results / "aaa.txt").read_text() == "aaa"
    assert not site.work.exists()
    assert all(path.startswith(str(site.bb)) for paths in found for path in paths)


def test_a_killed_worker_costs_a_try_and_neither_room_nor_files(site):
    path, log = site.write("a.txt", "a"), site.root / "log"
    with site.load(site.htex(), retries=3):
        assert python_app(apps.die_once)(str(log), inputs=[file(path)]).result(400)[1] == "a"
    tries = log.read_text().splitlines()
    assert len(tries) == 2
    assert len(set(tries)) == 1


SCRIPT = """
import sys, time
from pathlib import Path
import apps
from testsupport.moments import contents_of
from sites import Site
from parsl import python_app
from parsl.data_provider.files import File

class Old(Site):
    def __init__(self, root):
        root.joinpath("pfs").rmdir(); root.joinpath("bb").rmdir()
        super().__init__(root)

@python_app
def linger(inputs=(), outputs=()):
    import time
    with open(outputs[0], "w") as file:
        file.write("half")
    time.sleep(600)

site = Old(Path(sys.argv[1]))
path = site.write("a.txt", "a")
with site.load(site.htex()):
    linger(inputs=[File(str(path))], outputs=[File(str(site.results / "x.txt"))])
    deadline = time.monotonic() + 400
    while b"half" not in contents_of(site.files_on_bb()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    print("running", flush=True)
    time.sleep(1000)
"""


def started_by(pid, root):
    """Return a run's processes; its pilot isn't a child of it any more, but has the run's directory in its words."""
    named = [each for each in psutil.process_iter(["cmdline"]) if str(root) in " ".join(each.info["cmdline"] or ())]
    own = [each for each in named if each.pid != pid]
    return [*own, *(child for each in (*own, psutil.Process(pid)) for child in children_of(each))]


def children_of(process):
    try:
        return process.children(recursive=True)
    except psutil.NoSuchProcess:  # it has ended since it was listed
        return []


@pytest.mark.slow
def test_what_a_killed_run_left_goes_when_the_next_one_starts(site):
    script = site.root / "script.py"
    script.write_text(SCRIPT)
    process = subprocess.Popen([sys.executable, script, site.root], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "running\n"
        children = started_by(process.pid, site.root)
        process.send_signal(signal.SIGKILL)
        process.wait()
        for child in children:  # the pilot would end by itself, when it misses its interchange
            with suppress(psutil.NoSuchProcess):
                child.kill()
        psutil.wait_procs(children, timeout=300)
    finally:
        process.kill()
        process.stdout.close()
    assert site.files_on_bb(), "a killed process can't clean up"
    assert not (site.results / "x.txt").exists(), "no half file is seen"
    run(site, site.htex())
    assert (site.results / "aaa.txt").read_text() == "aaa"


def test_a_living_run_is_left_alone_by_others(site):
    with site.load(site.threads()):
        held = set(site.bb.iterdir())
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                "import sys; from pathlib import Path; from bbflow_parsl.rundirs import RunDirectory;"
                "RunDirectory(Path(sys.argv[1]), 'other').remove()",
                site.bb,
            ],
            timeout=300,
        )
        assert done.returncode == 0
        assert set(site.bb.iterdir()) == held


@pytest.mark.parametrize(
    ("options", "slots"),
    [
        ({"max_workers_per_node": 3, "provider": LocalProvider(max_blocks=2, nodes_per_block=4)}, 24),
        ({"max_workers_per_node": 3, "provider": LocalProvider(max_blocks=1)}, 3),
        ({"cores_per_worker": 1.0, "provider": LocalProvider(max_blocks=1)}, os.cpu_count()),
    ],
)
def test_slots_are_all_workers_of_all_pilot_blocks(options, slots):
    from bbflow_parsl import BurstBufferExecutor
    from bbflow_parsl.workers import slots_of

    assert slots_of(BurstBufferExecutor(address="127.0.0.1", **options)) == slots
