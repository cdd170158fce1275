"""What the engine refuses a program that doesn't look is known to the stream's node, or else to the run."""

import subprocess
import sys

import pytest

from testsupport.processes import finish, finish_well
from testsupport.writers import (
    PREAMBLE,
    clean_environment,
    run_program,
    run_writer,
    steps_of,
    watch,
    write,
    write_config,
    writing,
)

IGNORING = """
from contextlib import suppress
refused = suppress(Exception)
field = io.define_variable("field", np.zeros(4), [4], [0], [4])

def step(engine):
    engine.begin_step()
    engine.put(field, np.ones(4), Mode.Sync)
    engine.end_step()

engine = io.open("out.bp", Mode.Write)
step(engine)
"""


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (
            "engine.begin_step()\nfield.set_selection([[2], [4]])\nwith refused:\n    engine.put(field, np.ones(4))\n"
            "engine.end_step()",
            "a block of field is not in its shape",
        ),
        ("with refused:\n    engine.begin_step(StepMode.Update)", "StepMode::Append only"),
        (
            "engine.begin_step()\nwith refused:\n    engine.begin_step()\nengine.end_step()",
            "BeginStep was called twice",
        ),
        ("with refused:\n    engine.end_step()", "EndStep was called without BeginStep"),
    ],
)
def test_a_refusal_that_the_program_ignores_is_the_stream_s(node, tmp_path, code, why):
    write(node.contact, IGNORING + code + "\nengine.close()", write_config(tmp_path))
    shown = watch(node)
    assert shown["status"] == "closed"
    (told,) = shown["refused"]
    assert why in told


def test_each_step_is_refused_that_a_rank_begins_without_one_that_never_opened_the_stream(node, tmp_path):
    """Nothing waits forever: the answer to an earlier one was waited for again."""
    code = "for _ in range(2):\n    with refused:\n        step(engine)\n        sys.exit('was not refused')"
    config = write_config(tmp_path, OpenTimeoutSecs="0.5", Writers="2", Rank="0")
    write(node.contact, IGNORING + code + "\nengine.close()", config)
    (told,) = watch(node)["refused"]
    assert "1 of the 2 ranks of stream 'model' that should land on this node did not open it" in told


def test_a_refused_put_is_known_before_a_program_that_dies_of_it_aborts_its_stream(node, tmp_path):
    code = "engine.begin_step()\nfield.set_selection([[2], [4]])\nengine.put(field, np.ones(4))"
    returncode, _ = run_writer(node.contact, IGNORING + code, write_config(tmp_path))
    assert returncode == 1
    shown = watch(node)
    assert (shown["status"], len(shown["refused"])) == ("aborted", 1)


def test_a_span_that_is_refused_counts_for_nothing_if_the_block_is_put_after_all(node, programs, tmp_path):
    """As openPMD-api does with engines that have no spans."""
    done = run_program(node, programs, "span-or-put", write_config(tmp_path), LD_PRELOAD="")
    assert done.returncode == 0, done.stderr
    shown = watch(node)
    assert (len(steps_of(shown)), list(shown["refused"])) == (2, [])


@pytest.mark.parametrize(
    ("parameters", "why"),
    [
        ({"Stram": "model"}, "unknown parameter Stram; did you mean Stream?"),
        ({"QueueFullPolicy": "Spill"}, "needs a SpillDirectory"),
        ({}, "this process has opened stream 'model' already as"),
    ],
)
def test_a_refused_open_is_the_stream_s(node, tmp_path, parameters, why):
    code = f"""
other = adios2.Adios().declare_io("other")
other.set_engine("Plugin")
other.set_parameters({{"PluginName": "bbflow", "PluginLibrary": "bbflow_adios2", "Stream": "model", **{parameters}}})
with refused:
    adios2.Stream(other, "second.bp", "w")
engine.close()
"""
    write(node.contact, IGNORING + code, write_config(tmp_path))
    shown = watch(node)
    assert shown["status"] == "closed"
    assert why in shown["refused"][0]


def test_the_run_is_told_where_no_node_can_be(tmp_path):
    config = write_config(tmp_path, OpenTimeoutSecs="0")
    code = PREAMBLE + "try:\n    io.open('out', Mode.Write)\nexcept Exception:\n    pass\n"
    (tmp_path / "opens").touch()
    environment = clean_environment(tmp_path / "no.json") | {"BBFLOW_OPENS": str(tmp_path / "opens")}
    command = [sys.executable, "-c", code, config, "0", "1"]
    subprocess.run(command, env=environment, check=True, timeout=60, capture_output=True)
    told = [line.split("\t") for line in (tmp_path / "opens").read_text().splitlines()]
    ((_, stream, why),) = (line for line in told if line[0] == "refused")
    assert stream == "model"
    assert "can't read the contact file" in why


FORKED = """
engine = io.open("out.bp", Mode.Write)
field = io.define_variable("field", np.zeros(4), [4], [0], [4])
for number in range(4):
    engine.begin_step()
    engine.put(field, np.full(4, float(number)))
    engine.end_step()
    if number == 1:
        import os
        child = os.fork()
        if child == 0:
            {child}
        assert os.waitpid(child, 0)[1] == 0
engine.close()
"""


@pytest.mark.parametrize("keeps", ["yes", "no"])
@pytest.mark.parametrize(
    "child", ["sys.exit(0)", "engine.close(); sys.exit(0)", "os._exit(0)", "del engine; sys.exit(0)"]
)
def test_a_forked_child_leaves_its_parent_s_stream_alone(node, tmp_path, child, keeps):
    write(node.contact, FORKED.format(child=child), write_config(tmp_path, KeepOpen=keeps))
    shown = watch(node)
    assert shown["status"] == "closed"
    assert [step.number for step in steps_of(shown)] == [0, 1, 2, 3]
    assert list(shown["refused"]) == []


def test_what_a_forked_child_writes_into_its_parent_s_stream_is_refused(node, tmp_path):
    child = "\n            ".join(
        [
            "try:",
            "    engine.begin_step()",
            "except Exception as error:",
            "    sys.exit('was forked' not in str(error))",
            "sys.exit(1)",
        ]
    )
    write(node.contact, FORKED.format(child=child), write_config(tmp_path))
    assert watch(node)["status"] == "closed"


def test_a_forked_child_writes_a_stream_of_its_own_beside_one_that_its_parent_keeps(node, tmp_path):
    code = """
import os
def write_file(name, stream):
    other = adios2.Adios().declare_io(name)
    other.set_engine("Plugin")
    told = {"PluginName": "bbflow", "PluginLibrary": "bbflow_adios2", "Stream": stream, "KeepOpen": "yes"}
    other.set_parameters(told)
    with adios2.Stream(other, name, "w") as file:
        for _ in file.steps(2):
            file.write("field", np.ones(4), [4], [0], [4])
write_file("a", "model")
if os.fork() == 0:
    write_file("b", "child")
    sys.exit(0)
assert os.wait()[1] == 0
write_file("c", "model")
"""
    write(node.contact, code, write_config(tmp_path))
    assert (watch(node)["status"], len(steps_of(watch(node)))) == ("closed", 4)
    assert (watch(node, "child")["status"], len(steps_of(watch(node, "child")))) == ("closed", 2)


def test_processes_that_write_files_of_their_own_are_not_ranks_of_one_stream(node, tmp_path):
    code = """
import os
own = int(os.environ["PMI_RANK"])
try:
    engine = io.open(f"member_{own}.bp", Mode.Write)
finally:
    tell(f"tried.{own}")
    wait_for(f"tried.{1 - own}")
engine.begin_step()
"""
    with writing(node.contact, code, write_config(tmp_path), ranks=2) as process:
        returncode, said = finish(process)
    assert returncode != 0
    assert said.count("bbflow: rank") == 2, said
    assert "two files at once are two streams" in said
    shown = watch(node)
    assert shown["status"] == "aborted"
    assert "member_0.bp" in shown["refused"][0]
    assert "member_1.bp" in shown["refused"][0]


def test_each_process_of_a_launcher_may_write_a_file_that_is_a_stream_of_its_own(node, tmp_path):
    code = """
engine = io.open(f"member_{__import__('os').environ['PMI_RANK']}.bp", Mode.Write)
engine.begin_step()
engine.end_step()
engine.close()
"""
    with writing(node.contact, code, write_config(tmp_path, stream="model-{rank}"), ranks=2) as process:
        finish_well(process)
    assert [watch(node, f"model-{rank}")["status"] for rank in range(2)] == ["closed", "closed"]
