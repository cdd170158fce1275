"""Room for what running tasks are going to write, where their sizes are expected; and what failed ones leave."""

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from bbflow_parsl import BurstBufferSettings
from bbflow_parsl.outputs import Outputs
from hypothesis import given, settings
from hypothesis import strategies as st
from parsl import bash_app, python_app
from parsl.data_provider.files import File

from bbflow.errors import ConfigError


@pytest.fixture
def outputs(tmp_path):
    with ThreadPoolExecutor(1) as threads:
        yield Outputs(tmp_path / "bb", 100, lambda path, url: threads.submit(path.read_bytes))


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 60), st.booleans()), max_size=20))
def test_what_running_tasks_may_write_never_exceeds_the_room(tasks):
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as name:
        outputs = Outputs(Path(name) / "bb", 100, lambda path, url: Future())
        for number, (size_bytes, ends) in enumerate(tasks):
            writer = Future()
            place = outputs.place(f"{name}/pfs/{number}", "x", writer, False, False)
            if outputs.reserve(place, size_bytes):
                place.path.write_text("x" * size_bytes)
            assert outputs.room_bytes <= 100
            if ends:
                writer.set_result(None)
                assert outputs.room_bytes <= 100


def test_room_that_was_reserved_is_free_when_its_task_failed(outputs):
    writer = Future()
    assert outputs.reserve(outputs.place("/pfs/a", "a", writer, False, False), 100)
    other = outputs.place("/pfs/b", "b", Future(), False, False)
    writer.set_exception(RuntimeError())
    assert outputs.reserve(other, 100)


def test_the_longest_prefix_says_what_is_expected():
    expected = {"/pfs": "1KiB", "/pfs/large": "1MiB"}
    found = BurstBufferSettings(expected=expected)
    assert [found.expected_bytes(url) for url in ("/pfs/a", "/pfs/large/a", "/pfs/larger", "/else/a")] == [
        1024,
        1 << 20,
        1024,
        0,
    ]
    with pytest.raises(ConfigError):
        BurstBufferSettings(expected={"/pfs": "much"})


def test_tasks_with_expected_sizes_never_write_more_than_there_is_room_for(site):
    @python_app
    def write(watch, outputs=()):
        from pathlib import Path

        Path(outputs[0]).write_text("x" * 30_000)
        return watch()

    with site.load(site.threads(workers=4, capacity=200_000, expected={str(site.work): 30_000})):
        made = [write(site.bytes_on_bb, outputs=[File(str(site.work / f"{n}.txt"))]) for n in range(16)]
        assert max(each.result() for each in made) <= 100_000
    assert list(site.work.iterdir()), "the rest was written to its own place"


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_what_a_failed_task_said_is_in_its_place_and_its_outputs_are_not(site):
    @bash_app
    def fail(outputs=(), stderr=None):
        return f"echo half > {outputs[0]}; echo why >&2; exit 3"

    with site.load(site.threads()):
        task = fail(outputs=[File(str(site.results / "x.txt"))], stderr=File(str(site.results / "said.txt")))
        assert "exit code 3" in str(task.exception())
    assert [path.name for path in site.results.iterdir()] == ["said.txt"]
    assert (site.results / "said.txt").read_text().endswith("why\n")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"policy": "full-dely", "phases": "phases"}, "did you mean 'full-delay'"),
        ({"policy": "full-delay"}, "it needs 'phases'"),
        ({"options": {"oversise": "direct"}}, "did you mean 'oversize'"),
        ({"node_capacity": "much"}, "much"),
    ],
)
def test_what_cannot_be_meant_is_refused_at_once(changes, message):
    with pytest.raises(ConfigError, match=message):
        BurstBufferSettings(**changes)


def test_a_policy_and_its_phases_are_given_as_text(tmp_path):
    settings = BurstBufferSettings(policy="partial-delay:limit=0.1", phases=tmp_path / "phases")
    assert settings.delay_policy.limit == 0.1
    assert settings.phase_source.now() == []
