import os
import sys
from contextlib import contextmanager

import numpy as np
import pytest

from bbflow.errors import ConfigError, OperatorError
from bbflow.landing.embedded import EmbeddedNodes
from bbflow.registered.following import silent
from bbflow.registered.map_reduce import register
from bbflow.registered.process import FunctionProcess
from bbflow.registered.rank import Feeder, RankTask
from bbflow.registered.registration import Function, Registration, parse_group
from testsupport.processes import finish, kill, running, started
from testsupport.writers import clean_environment, wait_for_file, write_config, writing

STEPS, RANKS = 6, 2
WRITER = """
import os
rank, writers = int(os.environ.get("PMI_RANK", rank)), int(os.environ.get("PMI_SIZE", writers))
lat = io.define_variable("lat", np.empty(0), [2 * writers], [2 * rank], [2], True)
tas = io.define_variable("tas", np.empty(0, "f4"), [2 * writers, 5], [2 * rank, 0], [2, 5], True)
when = io.define_variable("time", np.zeros(1))
engine = io.open("out", Mode.Write)
for step in range(6):
    engine.begin_step()
    if step == 0 and HAS_LAT:
        engine.put(lat, np.arange(2.0) + 2 * rank, Mode.Sync)
    engine.put(tas, (100 * step + np.arange(10).reshape(2, 5) + 10 * rank).astype("f4"), Mode.Sync)
    engine.end_step()
    if step == STOP_AFTER:
        tell(f"stopped.{rank}")
        wait_for("go")
    if step == ABORT_AFTER:
        os._exit(0)
engine.close()
"""
TAS = np.stack([100 * step + np.arange(20).reshape(4, 5) for step in range(STEPS)]).astype("f4")


@contextmanager
def stream(nodes, folder, *, ranks=RANKS, has_lat=True, stop_after=-1, abort_after=-1, **parameters):
    """A simulation that writes lat and tas in six steps."""
    settings = f"HAS_LAT, STOP_AFTER, ABORT_AFTER = {has_lat}, {stop_after}, {abort_after}\n"
    with writing(nodes.contact, settings + WRITER, write_config(folder, **parameters), ranks=ranks) as job:
        yield job


@contextmanager
def registering(nodes, output, *options):
    """`bbflow register` beside the test."""
    command = [sys.executable, "-m", "bbflow", "register", "model", "--contact", nodes.contact, "--output", output]
    with running([*command, *options], clean_environment(nodes.contact)) as process:
        yield process


def run(nodes, folder, *options, **settings):
    """Register, simulate, and return the registration's exit code and what it said."""
    with registering(nodes, folder / "result", *options) as registration:
        with stream(nodes, folder, **settings) as job:
            assert finish(job) == (0, "")
        return finish(registration)


def visible(folder):
    return sorted(name for name in os.listdir(folder) if "result" in name)


@pytest.fixture(scope="module")
def one_ended(tmp_path_factory):
    """A node that has all steps of a stream that is closed."""
    with EmbeddedNodes(1, 1 << 20) as nodes:
        with stream(nodes, tmp_path_factory.mktemp("ended"), ranks=1) as job:
            assert finish(job) == (0, "")
        yield nodes


def test_blocks_of_all_nodes_are_mapped_and_reduced_to_one_output(two_nodes, guide, tmp_path):
    words = ("--map", f"{guide[0]}:map_total", "--reduce", f"{guide[0]}:reduce_total")
    assert run(two_nodes, tmp_path, "--variable", "tas", *words) == (0, "")
    assert (tmp_path / "result").read_text() == f"mean {TAS.mean():g} of {TAS.size} values\n"
    assert visible(tmp_path) == ["result"]


def test_a_block_lies_in_the_pool_and_is_described_in_the_environment(two_nodes, functions, tmp_path):
    assert run(two_nodes, tmp_path, "--map", f"{functions}:map_environment", has_lat=False) == (0, "")
    lines = (tmp_path / "result").read_text().splitlines()
    said = [f"tas|float|4,5|{step}|{2 * rank},0|2,5|40|pool" for step in range(STEPS) for rank in range(RANKS)]
    assert sorted(line.partition("|")[2] for line in lines) == sorted(said)
    assert {line.partition("|")[0] for line in lines} == {"bb0", "bb1"}


@pytest.mark.parametrize(("group", "lengths"), [("4", [4, 2]), ("all", [6])])
def test_several_steps_or_all_are_handed_over_at_once(two_nodes, functions, tmp_path, group, lengths):
    options = ("--map", f"{functions}:map_environment", "--group", group, "--variable", "tas")
    assert run(two_nodes, tmp_path, *options) == (0, "")
    lines = [line.split("|") for line in (tmp_path / "result").read_text().splitlines()]
    of_one_node = [line for line in lines if line[0] == "bb0"]
    ranks = len(of_one_node[0][4].split()) // lengths[0]
    first = 0
    for line, length in zip(of_one_node, lengths, strict=True):
        assert [int(step) for step in line[4].split()] == np.repeat(np.arange(first, first + length), ranks).tolist()
        assert line[7:] == [str(40 * length * ranks), "copy"]
        first += length


def test_a_crash_is_the_registrations_error_and_another_one_goes_on(two_nodes, functions, tmp_path):
    good = ("--map", f"{functions}:map_total", "--reduce", f"{functions}:reduce_total")
    bad = ("--map", f"{functions}:map_crash", "--reduce", f"{functions}:reduce_total")
    with registering(two_nodes, tmp_path / "good", "--variable", "tas", *good) as other:
        code, said = run(two_nodes, tmp_path, "--variable", "tas", *bad)
        assert code == 1
        assert "map_crash was killed by SIGSEGV at step 3 on BB node bb0" in said
        assert finish(other) == (0, "")
    assert (tmp_path / "good").exists()
    assert visible(tmp_path) == []


@pytest.mark.parametrize(
    ("symbols", "message"),
    [
        (("map_write", "reduce_total"), "map_write was killed by SIGSEGV at step 0"),
        (("map_exit", "reduce_total"), "map_exit ended with exit code 3 at step 0"),
        (("map_total", "reduce_abort"), "reduce_abort was killed by SIGABRT at the end of the stream"),
    ],
)
def test_nothing_half_written_is_seen_whatever_goes_wrong(one_ended, functions, tmp_path, symbols, message):
    words = [f"{functions}:{symbol}" for symbol in symbols]
    options = ("--map", words[0], "--reduce", words[1], "--variable", "tas")
    with registering(one_ended, tmp_path / "result", *options) as registration:
        code, said = finish(registration)
    assert (code, message in said) == (1, True), said
    assert visible(tmp_path) == []


def test_a_process_that_died_between_two_calls_is_told_and_can_be_closed(functions, tmp_path):
    function = Function(functions, "map_total")
    process, running = started(lambda: FunctionProcess(function, tmp_path / "intermediate"))
    with process:
        process.check()
        kill(running)
        process.start([], {}, in_pool=False)
        with pytest.raises(OperatorError, match="was killed by SIGKILL at step 3"):
            process.wait("step 3")


@pytest.mark.parametrize(
    ("variable", "message"),
    [("tass", "no step of stream 'model' has an array 'tass'; did you mean 'tas'"), (None, "has 2 arrays")],
)
def test_the_variable_must_be_one_array(one_ended, functions, tmp_path, variable, message):
    options = ("--variable", variable) if variable else ()
    with registering(one_ended, tmp_path / "result", "--map", f"{functions}:map_total", *options) as registration:
        code, said = finish(registration)
    assert (code, message in said) == (os.EX_USAGE, True), said


BULK = """
part = field(1 << 13)
engine = io.open("out", Mode.Write)
for step in range(12):
    engine.begin_step(StepMode.Append, -1.0)
    engine.put(part, np.full(1 << 13, float(step)), Mode.Sync)
    engine.end_step()
engine.close()
"""


def mapped_steps(folder):
    return [int(line.split("|")[4]) for line in (folder / "result").read_text().splitlines()]


def test_what_was_mapped_makes_room_and_a_late_registration_says_what_is_gone(tiny_node, functions, tmp_path):
    words = ("--map", f"{functions}:map_environment")
    with registering(tiny_node, tmp_path / "result", *words) as registration:
        with writing(tiny_node.contact, BULK, write_config(tmp_path)) as job:
            assert finish(job) == (0, "")
        assert finish(registration) == (0, "")
    assert mapped_steps(tmp_path) == list(range(12))
    (tmp_path / "late").mkdir()
    with registering(tiny_node, tmp_path / "late" / "result", *words) as late:
        code, said = finish(late)
    left = mapped_steps(tmp_path / "late")
    assert (code, left) == (0, list(range(12 - len(left), 12)))
    assert f"{12 - len(left)} of 12 steps were discarded, or gone before this registration" in said


def test_blocks_that_were_spilled_are_mapped_too(tiny_node, functions, tmp_path):
    spill = tmp_path / "spill"
    spill.mkdir()
    config = write_config(tmp_path, QueueFullPolicy="Spill", SpillDirectory=str(spill))
    with writing(tiny_node.contact, BULK, config) as job:
        code, said = finish(job)
    assert (code, "spilled" in said) == (0, True)
    with registering(tiny_node, tmp_path / "result", "--map", f"{functions}:map_environment") as registration:
        assert finish(registration) == (0, "")
    assert mapped_steps(tmp_path) == list(range(12))


@pytest.mark.slow
def test_a_group_that_fills_its_node_is_an_error_and_the_simulation_goes_on(tiny_node, functions, tmp_path):
    words = ("--map", f"{functions}:map_environment", "--group", "all")
    with writing(tiny_node.contact, BULK, write_config(tmp_path)) as job:
        with registering(tiny_node, tmp_path / "result", *words) as registration:
            code, said = finish(registration)
        assert code == os.EX_TEMPFAIL
        assert "steps of the group fill BB node bb0" in said
        assert visible(tmp_path) == []
        with registering(tiny_node, tmp_path / "result", "--map", f"{functions}:map_environment") as registration:
            assert finish(job) == (0, "")
            assert finish(registration) == (0, "")
    assert mapped_steps(tmp_path) == list(range(12))


def test_an_aborted_stream_leaves_no_output(two_nodes, functions, tmp_path):
    with registering(
        two_nodes, tmp_path / "result", "--map", f"{functions}:map_total", "--variable", "tas"
    ) as registration:
        with stream(two_nodes, tmp_path, ranks=1, abort_after=3) as job:
            finish(job)
        code, said = finish(registration)
    assert code == os.EX_DATAERR
    assert "was aborted by its writer after 4 complete steps" in said
    assert visible(tmp_path) == []


def test_ranks_read_the_logical_file_that_is_still_written(two_nodes, guide, tmp_path):
    with registering(
        two_nodes, tmp_path / "result", "--mpi", "--variable", "tas", "--map", f"{guide[1]}:mean"
    ) as registration:
        with stream(two_nodes, tmp_path, stop_after=2) as job:
            for rank in range(RANKS):
                wait_for_file(tmp_path / f"stopped.{rank}")
            assert registration.poll() is None
            (tmp_path / "go").touch()
            assert finish(job) == (0, "")
        assert finish(registration) == (0, "")
    assert (tmp_path / "result").read_text() == f"mean {TAS.mean():g} of {TAS.size} values\n"
    assert visible(tmp_path) == ["result"]


def test_a_rank_that_reads_no_more_leaves_no_thread_though_the_stream_goes_on(two_nodes, tmp_path, monkeypatch):
    for name in ("STREAM", "VARIABLE", "TYPE", "SHAPE"):
        monkeypatch.setenv(f"BBFLOW_{name}", "")
    task = RankTask("", "", "", contact=str(two_nodes.contact), stream="model", variable="tas")
    with stream(two_nodes, tmp_path, stop_after=2) as job:
        feeder = Feeder(task, silent)
        feeder.start()
        assert feeder.known.wait(300)
        feeder.close()
        assert not feeder.is_alive()
        assert feeder.error is None
        (tmp_path / "go").touch()
        assert finish(job) == (0, "")


def test_ranks_reduce_what_each_has_written(two_nodes, ranks, tmp_path):
    options = ("--mpi", "--variable", "tas", "--map", f"{ranks}:rank_say", "--reduce", f"{ranks}:rank_copy")
    assert run(two_nodes, tmp_path, *options) == (0, "")
    assert (tmp_path / "result").read_text() == "2 ranks\nfloat 4,5 of rank 0\nfloat 4,5 of rank 1\n"


def test_a_rank_that_crashes_is_told_with_its_signal(two_nodes, ranks, tmp_path):
    code, said = run(two_nodes, tmp_path, "--mpi", "--variable", "tas", "--map", f"{ranks}:rank_crash")
    assert code == 1
    assert "rank_crash: a rank was killed by SIGSEGV" in said
    assert visible(tmp_path) == []


def test_a_variable_need_not_be_in_every_step(one_ended, functions, tmp_path):
    words = ("--variable", "lat", "--map", f"{functions}:map_environment")
    with registering(one_ended, tmp_path / "result", *words) as registration:
        assert finish(registration) == (0, "")
    assert mapped_steps(tmp_path) == [0]


@pytest.mark.parametrize("kind", ["map", "reduce"])
def test_a_function_that_is_not_there_is_told_at_once(one_ended, functions, tmp_path, kind):
    good = Function(functions, "map_total")
    chosen = {"map": good, "reduce": good} | {kind: Function(functions, "nothing")}
    with pytest.raises(ConfigError, match=r"can.t use .*:nothing: .*undefined symbol"):
        register(Registration(one_ended.contact, "not there yet", output=tmp_path / "result", **chosen))
    assert visible(tmp_path) == []


def test_an_output_that_is_there_is_left_as_it_is(functions, tmp_path):
    output = tmp_path / "sums"
    output.write_text("theirs")
    with pytest.raises(ConfigError, match="sums exists already: move it"):
        register(Registration(tmp_path / "contact", "model", Function(functions, "map_total"), output))
    assert output.read_text() == "theirs"


def test_groups_are_for_functions_that_get_a_buffer(functions, tmp_path):
    function = Function(functions, "map_total")
    with pytest.raises(ConfigError, match="--group is for functions that get a buffer"):
        register(Registration(tmp_path / "contact", "model", function, tmp_path / "result", group=2, mpi=True))


@pytest.mark.parametrize("text", ["0", "-1", "some", ""])
def test_a_group_is_a_number_or_all(text):
    with pytest.raises(ConfigError, match="nor 'all'"):
        parse_group(text)


@pytest.mark.parametrize("text", ["libmax.so", ":f", "lib.so:", "lib.so:1f"])
def test_a_function_is_named_with_its_library(text):
    with pytest.raises(ConfigError, match="LIB:FUNC"):
        Function.parse(text)


def test_a_library_that_is_not_there_is_told(tmp_path):
    with pytest.raises(ConfigError, match="there is no library"):
        Function.parse(f"{tmp_path}/libnone.so:f")
