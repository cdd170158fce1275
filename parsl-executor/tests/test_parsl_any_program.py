"""Any small program through the real DataFlowKernel, and what it takes to come by S3 and beside an HPC application."""

from collections import Counter
from concurrent.futures import wait
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.request import Request, urlopen

import apps
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from moto.server import ThreadedMotoServer
from parsl import python_app
from parsl.data_provider.files import File
from sites import Site

from bbflow.events import EventLog, read_events
from bbflow.phases import Board, BoardSource
from bbflow.staging import Gate, Retry, parse_policy
from bbflow.staging.transfers import stage_out
from bbflow.stores.sources import Sources
from testsupport.gates import gates_made, is_waiting
from testsupport.moments import bytes_at_once
from testsupport.waiting import until

UNIT_BYTES = 1000


@python_app
def concatenate(site, inputs=(), outputs=()):
    """Write what was read first to each output; return what was read, and how much lies on the BB meanwhile."""
    content = "".join(Path(each).read_text() for each in inputs)
    for each in outputs:
        Path(each).write_text(content[:1] * UNIT_BYTES)
    return content, data_bytes(site)


def data_bytes(site):
    """Return how many bytes of files lie on the burst buffer, without the notes about them."""
    return bytes_at_once(path for path in site.files_on_bb() if "notes" not in path.parts)


@st.composite
def programs(draw):
    """Tasks in program order: the numbers of the source files and of the earlier tasks whose outputs each reads."""
    tasks = []
    for number in range(draw(st.integers(1, 8))):
        sources = draw(st.lists(st.integers(0, 4), max_size=3, unique=True))
        earlier = draw(st.lists(st.integers(0, number - 1), max_size=2, unique=True)) if number else []
        tasks.append((sources, earlier))
    return tasks


def residencies(events):
    """Check that no file is copied again before it has gone, and return how often each was copied."""
    copies, there = Counter(), set()
    for event in events:
        if event["event"] == "transfer" and event["bytes"]:
            assert event["url"] not in there, "staged twice in one residency"
            there.add(event["url"])
            copies[event["url"]] += 1
        elif event["event"] == "evicted":
            there.discard(event["url"])
    return copies


@settings(max_examples=12)
@given(programs(), st.integers(3, 12), st.integers(1, 3), st.integers(0, 2))
def test_any_program_stages_each_file_once_a_residency_within_the_capacity_and_ends(tasks, units, workers, lookahead):
    with TemporaryDirectory() as name, closing(EventLog(Path(name))) as events:
        site = Site(Path(name).resolve())
        paths = [site.write(f"{n}.dat", str(n) * UNIT_BYTES) for n in range(5)]
        executor = site.threads(
            workers,
            capacity=2 * units * UNIT_BYTES,
            lookahead=lookahead,
            results=[],
            expected={str(site.work): UNIT_BYTES},
            options={"events": events},
        )
        with site.load(executor):
            made = []
            for number, (sources, earlier) in enumerate(tasks):
                inputs = [File(str(paths[n])) for n in sources] + [made[n].outputs[0] for n in earlier]
                outputs = [File(str(site.work / f"{number}.dat"))]
                made.append(concatenate(site, inputs=inputs, outputs=outputs))
            assert not wait(made, timeout=600).not_done, "a task never ended"
        contents = []
        for (sources, earlier), task in zip(tasks, made, strict=True):
            content, bytes_on_bb = task.result()
            parts = [str(n) * UNIT_BYTES for n in sources] + [contents[n][:1] * UNIT_BYTES for n in earlier]
            assert content == "".join(parts)
            assert bytes_on_bb <= 2 * units * UNIT_BYTES, "above the capacity"
            contents.append(content)
        copies = residencies(read_events(Path(name)))
        assert set(copies) <= {str(path) for path in paths}
        if units >= 5:
            assert all(times == 1 for times in copies.values()), "there is room for all"


@pytest.fixture
def bucket():
    """A server that knows S3, and the options for it."""
    server = ThreadedMotoServer("127.0.0.1", 0)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    with urlopen(Request(f"{url}/bucket", method="PUT"), timeout=300):
        pass
    yield {"s3": {"endpoint_url": url, "key": "k", "secret": "s", "region": "us-east-1"}}
    server.stop()


@pytest.mark.parametrize("node", [False, True])
def test_an_object_is_staged_in_and_a_result_goes_to_its_object(site, bucket, node):
    source = site.write("a.txt", "object")
    stage_out(source, "s3://bucket/in/a.txt", Sources(bucket), Gate(1), Retry())
    directory = site.root / "node"
    own = {"directory": None, "node_directory": str(directory)} if node else {}
    executor = site.threads(options={"options": bucket}, results=["s3://bucket/out"], **own)
    with site.load(executor):
        made = python_app(apps.join)(inputs=[File("s3://bucket/in/a.txt")], outputs=[File("s3://bucket/out/b.txt")])
        made.outputs[0].result(300)
        assert made.result()[0].startswith(str(directory if node else site.bb))
    facts = Sources(bucket).facts("s3://bucket/out/b.txt")
    assert facts.size_bytes == len("object")


def test_a_missing_object_is_one_clear_error(site, bucket):
    with site.load(site.threads(options={"options": bucket})):
        task = python_app(apps.read)(File("s3://bucket/nowhere.txt"))
        assert "s3://bucket/nowhere.txt isn't there" in repr(task.exception(300))


def test_nothing_is_fetched_in_a_phase_of_another_application(site, monkeypatch):
    path, gates = site.write("a.txt", "a"), gates_made(monkeypatch)
    board = Board(site.root / "phases")
    phase = board.begin("ocean-model", lease_s=600)
    policy = {"policy": parse_policy("full-delay"), "phases": BoardSource(site.root / "phases")}
    with site.load(site.threads(**policy)):
        task = python_app(apps.read)(File(str(path)))
        until(lambda: is_waiting(gates) or task.done())
        assert not task.done()
        assert not site.bytes_on_bb()
        board.end(phase.token)
        assert task.result(300)[1] == "a"


def test_a_phase_that_never_ends_delays_no_longer_than_allowed(site):
    path = site.write("a.txt", "a")
    Board(site.root / "phases").begin("ocean-model", lease_s=600)
    policy = {"policy": parse_policy("full-delay:max_delay_s=0.3"), "phases": BoardSource(site.root / "phases")}
    with site.load(site.threads(**policy)):
        assert python_app(apps.read)(File(str(path))).result(300)[1] == "a"
