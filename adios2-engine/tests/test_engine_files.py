"""One stream of many files: what happens when a program opens again what it has closed."""

import pytest

from testsupport.processes import finish
from testsupport.writers import (
    attributes_of,
    run_writer,
    steps_of,
    watch,
    watch_until,
    write,
    write_config,
    writing,
)

# Writes steps into a file, in an IO of its own, as programs do that make one file a month.
FILES = """
adios = adios2.Adios(sys.argv[1])

def write_file(name, steps, mode="w", io_name=None):
    io = adios.declare_io(name) if io_name is None else adios.at_io(io_name)
    io.set_engine("Plugin")
    io.set_parameters({"PluginName": "bbflow", "PluginLibrary": "bbflow_adios2", "Stream": "model", **GIVEN})
    with adios2.Stream(io, name, mode) as stream:
        for _ in stream.steps(steps):
            stream.write("day", np.arange(4.0), [4], [0], [4])
            counted.append(stream.current_step())

counted = []
GIVEN = {"KeepOpen": "yes"}
"""


def numbers(node):
    return [step.number for step in steps_of(watch(node))]


def test_steps_count_on_from_file_to_file_until_the_program_ends(node, tmp_path):
    code = """
for month, days in ("1", 3), ("2", 1), ("3", 2):
    write_file(month, days)
assert counted == [0, 1, 2, 0, 0, 1], counted
tell("closed")
wait_for("seen")
"""
    config = write_config(tmp_path)
    with writing(node.contact, FILES + code, config) as process:
        watch_until(node, lambda shown: len(shown["steps"]) == 6 and (tmp_path / "closed").exists())
        assert watch(node)["status"] == "open"
        (tmp_path / "seen").touch()
        returncode, said = finish(process)
    assert returncode == 0, said
    assert watch(node)["status"] == "closed"
    assert numbers(node) == list(range(6))


def test_append_goes_on_with_what_this_program_wrote_before(node, tmp_path):
    code = """
write_file("a", 2, "a")
GIVEN = {}
for _ in range(3):
    write_file("a", 1, "a", io_name="a")
assert counted == [0, 1, 2, 3, 4], counted
"""
    write(node.contact, FILES + code, write_config(tmp_path))
    assert (watch(node)["status"], numbers(node)) == ("closed", list(range(5)))


@pytest.mark.parametrize(
    ("end", "status"),
    [
        ("sys.exit(0)", "closed"),
        ("sys.exit(3)", "aborted"),
        ("raise RuntimeError('diverged')", "aborted"),
        ("import os; os._exit(0)", "aborted"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "aborted"),
        ("import os; os.fork() or sys.exit(0); os.wait(); write_file('2', 1)", "closed"),
    ],
)
def test_only_a_program_that_ends_well_closes_its_stream(node, tmp_path, end, status):
    run_writer(node.contact, FILES + f"write_file('1', 2)\n{end}", write_config(tmp_path))
    shown = watch_until(node, lambda shown: shown["status"] in ("closed", "aborted"))
    assert shown["status"] == status
    assert numbers(node)[:2] == [0, 1]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            "first = adios2.Stream(io, 'a', 'w'); other = adios.declare_io('b'); other.set_engine('Plugin')\n"
            "other.set_parameters(io.parameters()); adios2.Stream(other, 'b', 'w')",
            "stream 'model' is open already: its files follow each other",
        ),
        (
            "adios2.Stream(io, 'a', 'w').close()\nio.set_parameters({'Rank': '1', 'Writers': '2'})\n"
            "adios2.Stream(io, 'b', 'w')",
            "is rank 1 of 2 where it opens stream 'model', but was rank 0 of 1 there before",
        ),
        ("io.set_parameter('Stream', 'model-{open}'); adios2.Stream(io, 'a', 'w')", "KeepOpen makes one stream"),
    ],
)
def test_what_can_t_be_one_stream_is_refused(node, tmp_path, code, message):
    returncode, said = run_writer(node.contact, FILES + code, write_config(tmp_path, KeepOpen="yes"))
    assert returncode != 0
    assert message in said


def test_attributes_go_with_the_step_in_which_they_change_over_all_files(node, tmp_path):
    code = """
for number in range(3):
    file = adios.declare_io(str(number))
    file.define_attribute("title", "one" if number < 2 else "two")
    file.define_attribute("late", "0") if number == 1 else None
    write_file(str(number), 1, io_name=str(number))
"""
    write(node.contact, FILES + code, write_config(tmp_path))
    told = [{item.name: item.value for item in step.attributes} for step in steps_of(watch(node))]
    assert told == [
        {"title": "one", "bbflow_file": "0"},
        {"late": "0", "bbflow_file": "1"},
        {"title": "two", "bbflow_file": "2"},
    ]
    assert attributes_of(watch(node)) == {"title": "two", "late": "0", "bbflow_file": "2"}


@pytest.mark.cold
def test_two_thousand_opens_and_closes_leave_nothing_behind(node, tmp_path):
    code = """
import os

def held():
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return len(os.listdir("/proc/self/fd")), pages

def go_on(times):
    for _ in range(times):
        with adios2.Stream(io, "out", "w") as stream:
            pass

go_on(200)
fds, pages = held()
go_on(2000)
after = held()
assert after[0] == fds, (fds, after)
assert after[1] - pages < 1000, (pages, after)
"""
    write(node.contact, FILES + code, write_config(tmp_path, KeepOpen="yes"))
    assert watch(node)["status"] == "closed"


def test_ranks_end_a_stream_of_many_files_together(node, tmp_path):
    code = """
field = io.define_variable("field", np.empty(0), [2 * 4], [rank * 4], [4], True)
for name in "abc":
    engine = io.open(name, Mode.Write)
    for _ in range(2):
        engine.begin_step()
        engine.put(field, np.full(4, 1.0))
        engine.end_step()
    engine.close()
"""
    code = code.replace("rank *", "int(__import__('os').environ['PMI_RANK']) *")
    with writing(node.contact, FILES + code, write_config(tmp_path, KeepOpen="yes"), ranks=2) as process:
        returncode, said = finish(process)
    assert returncode == 0, said
    assert (watch(node)["status"], numbers(node)) == ("closed", list(range(6)))


def test_a_program_closes_one_of_two_files_while_the_other_is_open(node, tmp_path):
    """ADIOS2's Python flushes all engines then, which a plugin's can't be by themselves."""
    code = """
def opened(name):
    io = adios.declare_io(name)
    io.set_engine("Plugin")
    io.set_parameters({"PluginName": "bbflow", "PluginLibrary": "bbflow_adios2", "Stream": name})
    return adios2.Stream(io, name, "w")

def step(stream):
    stream.begin_step()
    stream.write("day", np.arange(4.0), [4], [0], [4])
    stream.end_step()

model, other = opened("model"), opened("other")
step(model)
step(other)
model.close()
step(other)
other.close()
"""
    write(node.contact, FILES + code, write_config(tmp_path))
    assert watch(node)["status"] == "closed"
    assert [step.number for step in steps_of(watch(node, "other"))] == [0, 1]
