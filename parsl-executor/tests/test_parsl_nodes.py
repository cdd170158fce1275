"""Each node's own burst buffer: pilot blocks on this host that see different directories are the nodes."""

import os
import time
from pathlib import Path

import apps
import pytest
from bbflow_parsl import BurstBufferSettings
from bbflow_parsl.workers import slots_of, with_more_workers
from parsl import bash_app, python_app
from parsl.data_provider.files import File
from parsl.providers import LocalProvider

from bbflow.errors import CapacityError, ConfigError, SourceError
from bbflow.phases import Board, BoardSource
from bbflow.staging import Retry, parse_policy
from testsupport.gates import gates_made, is_waiting
from testsupport.waiting import until

read, read_all, write, join = (python_app(each) for each in (apps.read, apps.read_all, apps.write, apps.join))


pytestmark = pytest.mark.usefixtures("workers_find_the_apps")


def file(path):
    return File(str(path))


@pytest.fixture
def nodes(site):
    """The nodes' file systems; a run leaves nothing on them."""
    found = site.root / "nodes"
    found.mkdir()
    yield found
    until(lambda: not list(found.glob("*/bbflow-node-*")))


def on_one_node(site, nodes, **changes):
    settings = {"directory": None, "node_directory": str(nodes / "one")}
    return site.threads(**(settings | changes))


@python_app
def look(wait_for, count, inputs=(), outputs=()):
    """Return where this ran and what it saw, once this many tasks are running."""
    import os
    from pathlib import Path

    mark = Path(wait_for) / f"{os.getpid()}-{time.time_ns()}"
    mark.touch()
    until_s = time.monotonic() + 300
    while len(list(Path(wait_for).iterdir())) < count:
        assert time.monotonic() < until_s
        time.sleep(0.01)
    for output in outputs:
        Path(output).write_text("".join(Path(each).read_text() for each in inputs))
    places = [(os.fspath(each), os.stat(each).st_ino, Path(each).read_text()) for each in inputs]
    return os.environ["PARSL_WORKER_BLOCK_ID"], places


def test_each_node_fetches_a_file_once_and_what_one_makes_another_reads(site, nodes):
    path, meeting = site.write("a.txt", "a"), site.root / "meeting"
    meeting.mkdir()
    provider = LocalProvider(init_blocks=2, max_blocks=2)
    burst_buffer = {"directory": None, "node_directory": f"{nodes}/node-$PARSL_WORKER_BLOCK_ID", "lookahead": 0}
    with site.load(site.htex(workers=2, provider=provider, **burst_buffer)):
        made = [look(str(meeting), 4, inputs=[file(path)], outputs=[file(site.work / f"{n}.txt")]) for n in range(4)]
        found = [each.result(400) for each in made]
        joined = join(inputs=[each.outputs[0] for each in made], outputs=[file(site.results / "all.txt")])
        assert Path(joined.outputs[0].result(300)).read_text() == "aaaa"
        assert joined.result()[0].startswith(str(nodes))
    places = {}
    for block, [(place, inode, content)] in found:
        assert place.startswith(f"{nodes}/node-{block}/")
        assert content == "a"
        places.setdefault(block, set()).add((place, inode))
    assert len(places) == 2, "both nodes had work"
    assert all(len(each) == 1 for each in places.values()), "its tasks share one copy on a node"


@python_app
def note_computing(log, tasks, inputs=()):
    """Note beginning and end of computing; return whether a file came to the node meanwhile that a later task reads."""
    from pathlib import Path

    with open(log, "a") as file:
        file.write("begin\n")
    begun = Path(log).read_text().split().count("begin")
    entries, until_s = Path(inputs[0]).parents[2], time.monotonic() + 120
    while begun < tasks and len(list(entries.glob("*/whole/*"))) <= begun and time.monotonic() < until_s:
        time.sleep(0.01)
    with open(log, "a") as file:
        file.write("end\n")
    return len(list(entries.glob("*/whole/*"))) > begun


def test_the_next_wave_comes_to_the_node_while_one_computes_and_no_more_tasks_compute_than_have_slots(site, nodes):
    log = site.root / "log"
    paths = [site.write(f"{n}.txt", str(n)) for n in range(4)]
    executor = site.htex(workers=1, directory=None, node_directory=str(nodes / "one"))
    assert executor.max_workers_per_node == 2
    with site.load(executor):
        ahead = [note_computing(str(log), 4, inputs=[file(path)]) for path in paths]
        assert sum(each.result(600) for each in ahead) == 3, "all but the last"
    assert log.read_text().split() == ["begin", "end"] * 4


def test_a_shared_burst_buffer_is_the_source_of_the_nodes(site, nodes):
    path = site.write("a.txt", "a")
    with site.load(site.threads(node_directory=str(nodes / "one"))):
        place, content = read(file(path)).result()
        assert content == "a"
        assert place.startswith(str(nodes))
        made = write("x", outputs=[file(site.work / "x.txt")])
        found = join(inputs=[made.outputs[0]], outputs=[file(site.results / "x.txt")])
        found.outputs[0].result()
        assert all(each.startswith(str(nodes)) for each in made.result() + found.result())
    assert not site.work.exists(), "an intermediate file stays on the shared burst buffer"
    assert (site.results / "x.txt").read_text() == "x"


def test_what_a_source_is_now_is_read_and_old_versions_go_for_new_ones(site, nodes):
    path = site.write("a.txt", "a" * 600)
    with site.load(on_one_node(site, nodes, node_capacity=1000)):
        for letter in "abcd":
            os.utime(site.write("a.txt", letter * 600), (ord(letter),) * 2)  # the clock may not have ticked since
            place, content = read(file(path)).result()
            assert content == letter * 600
            assert place.startswith(str(nodes))
            kept = nodes.rglob("whole/*")
            assert sum(each.stat().st_size for each in kept) <= 1000


def test_many_tasks_with_little_room_on_the_node_all_run(site, nodes):
    paths = [site.write(f"{number}.txt", str(number) * 100) for number in range(8)]
    with site.load(on_one_node(site, nodes, workers=4, node_capacity=450, expected={str(site.pfs): 100})):
        made = [
            join(inputs=[file(paths[n % 8]), file(paths[n * 3 % 8])], outputs=[file(site.results / f"{n}.txt")])
            for n in range(24)
        ]
        for n, each in enumerate(made):
            each.result(300)
            assert (site.results / f"{n}.txt").read_text() == str(n % 8) * 100 + str(n * 3 % 8) * 100


def test_a_set_larger_than_the_node_is_an_error_or_read_directly(site, nodes):
    path = site.write("large.txt", "x" * 3000)
    with site.load(on_one_node(site, nodes, node_capacity=2000)), pytest.raises(CapacityError, match=r"2\.93 KiB"):
        read(file(path)).result()
    direct = on_one_node(site, nodes, node_capacity=2000, options={"oversize": "direct"})
    with site.load(direct):
        made = join(inputs=[file(path)], outputs=[file(site.results / "x.txt")])
        assert made.result() == [str(site.results / "x.txt")]


def test_a_url_comes_to_the_node_and_one_that_is_missing_is_one_clear_error(site, nodes, gate):
    site.write("a.txt", "a")
    with site.load(on_one_node(site, nodes, options={"retry": Retry(attempts=2)})):
        gate.opened.set()
        place, content = read(File(f"{gate.url}/a.txt")).result()
        assert content == "a"
        assert place.startswith(str(nodes))
        with pytest.raises(SourceError, match=r"b\.txt isn't there"):
            read(File(f"{gate.url}/b.txt")).result()


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_failed_task_leaves_no_output_but_what_it_said(site, nodes):
    @bash_app
    def fail(outputs=(), stderr=None):
        return f"echo half > {outputs[0]}; echo why >&2; exit 3"

    with site.load(on_one_node(site, nodes)):
        task = fail(outputs=[file(site.results / "x.txt")], stderr=file(site.results / "said.txt"))
        assert "exit code 3" in str(task.exception())
    assert [path.name for path in site.results.iterdir()] == ["said.txt"]
    assert (site.results / "said.txt").read_text().endswith("why\n")


def test_workers_wait_for_the_end_of_a_phase(site, nodes, monkeypatch):
    path, gates = site.write("a.txt", "a"), gates_made(monkeypatch)
    board = Board(site.root / "phases")
    phase = board.begin("ocean-model", lease_s=600)
    settings = {"policy": parse_policy("full-delay"), "phases": BoardSource(site.root / "phases")}
    with site.load(on_one_node(site, nodes, **settings)):
        task = read(file(path))
        until(lambda: is_waiting(gates) or task.done())
        assert list(nodes.glob("*/*/entries/*/coming"))
        assert not task.done()
        board.end(phase.token)
        assert task.result(300)[1] == "a"


def test_a_variable_that_no_worker_has_is_an_error(site, nodes):
    path = site.write("a.txt", "a")
    executor = site.threads(directory=None, node_directory="$NO_SUCH_VARIABLE/bb")
    with site.load(executor), pytest.raises(ConfigError, match="NO_SUCH_VARIABLE"):
        read(file(path)).result()


@pytest.mark.parametrize(
    ("options", "workers"),
    [
        ({"max_workers_per_node": 3}, 6),
        ({"max_workers_per_node": 3, "cpu_affinity": "block"}, 3),
        ({"max_workers_per_node": 3, "available_accelerators": 3}, 3),
    ],
)
def test_workers_that_own_nothing_are_doubled(options, workers):
    burst_buffer = BurstBufferSettings(node_directory="/bb")
    assert with_more_workers(burst_buffer, (), dict(options))["max_workers_per_node"] == workers
    assert with_more_workers(BurstBufferSettings(), (), dict(options)) == options


def test_slots_are_the_tasks_that_compute_not_the_workers(site):
    provider = LocalProvider(max_blocks=2, nodes_per_block=4)
    executor = site.htex(workers=3, provider=provider, node_directory="/bb", lookahead=2)
    assert executor.max_workers_per_node == 9
    assert slots_of(executor, 3) == 24
