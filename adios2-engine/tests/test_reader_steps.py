import json
import signal

import psutil
import pytest
from readers import read, read_wrongly, reading, shown

from bbflow.landing.embedded import EmbeddedNodes
from bbflow.net.contact import contact_key
from testsupport.processes import finish
from testsupport.waiting import until
from testsupport.writers import wait_for_file, write, write_config, writing

WRITE_THREE = """
engine = io.open("out", Mode.Write)
n = io.define_variable("n", np.empty(0, np.int64))
for step in range(3):
    engine.begin_step()
    engine.put(n, np.array(step * 10))
    engine.end_step()
engine.close()
"""
READ_ALL = """
while (status := begin()) == "OK":
    show(engine.current_step(), int(get("n")))
    engine.end_step()
show(status)
engine.close()
"""
ALL_THREE = [[0, 0], [1, 10], [2, 20], ["EndOfStream"]]


@pytest.fixture
def config(tmp_path):
    return write_config(tmp_path)


def test_a_closed_stream_is_read_from_its_first_step_to_its_end(node, config):
    write(node.contact, WRITE_THREE, config)
    assert read(node.contact, READ_ALL, config) == ALL_THREE


def test_a_stream_is_read_again_as_long_as_it_is_kept(node, config):
    write(node.contact, WRITE_THREE, config)
    assert read(node.contact, READ_ALL, config) == read(node.contact, READ_ALL, config) == ALL_THREE


def test_several_readers_follow_a_writer_that_starts_after_them(node, config):
    with reading(node.contact, READ_ALL, config) as first, reading(node.contact, READ_ALL, config) as second:
        write(node.contact, WRITE_THREE, config)
        assert shown(first) == shown(second) == ALL_THREE


SLOW_WRITER = """
engine = io.open("out", Mode.Write)
n = io.define_variable("n", np.empty(0, np.int64))
for step in range(3):
    engine.begin_step()
    engine.put(n, np.array(step))
    wait_for(f"end{step}")
    engine.end_step()
wait_for("close")
engine.close()
"""


def test_begin_step_says_not_ready_until_the_step_is_committed(node, config, tmp_path):
    code = """
for step in range(3):
    show(begin(0.0), begin(0.2))
    tell(f"end{step}")
    show(begin(), int(get("n")))
    engine.end_step()
show(begin(0.2))
tell("close")
show(begin(), begin(0.0))
"""
    with writing(node.contact, SLOW_WRITER, config) as writer:
        assert read(node.contact, code, config) == [
            *([["NotReady", "NotReady"], ["OK", step]][i] for step in range(3) for i in range(2)),
            ["NotReady"],
            ["EndOfStream", "EndOfStream"],
        ]
        assert finish(writer)[0] == 0


def is_at_rest(process):
    """Whether a process lets one second pass without working; one that polls never does."""
    before = process.cpu_times(), process.num_ctx_switches()
    with pytest.raises(psutil.TimeoutExpired):
        process.wait(1.0)
    after = process.cpu_times(), process.num_ctx_switches()
    burnt_s = after[0].user + after[0].system - before[0].user - before[0].system
    return burnt_s <= 0.05 and after[1].voluntary - before[1].voluntary < 20


def test_a_waiting_reader_burns_no_cpu(node, config, tmp_path):
    with writing(node.contact, SLOW_WRITER, config) as writer:
        (tmp_path / "end0").touch()
        code = 'begin(); engine.end_step(); tell("waits"); begin(); engine.end_step(); show("done")'
        with reading(node.contact, code, config) as process:
            wait_for_file(tmp_path / "waits")
            until(lambda: is_at_rest(psutil.Process(process.pid)))
            (tmp_path / "end1").touch()
            assert shown(process) == [["done"]]
        for name in ("end2", "close"):
            (tmp_path / name).touch()
        assert finish(writer)[0] == 0


def test_a_late_reader_starts_at_the_oldest_step_that_is_kept(small_node, config, tmp_path):
    writer = """
engine = io.open("out", Mode.Write)
x = io.define_variable("x", np.empty(0), [32768], [0], [32768], True)
for step in range(8):
    engine.begin_step()
    engine.put(x, np.full(32768, float(step)), Mode.Sync)
    engine.end_step()
    tell(f"ended{step}")
wait_for("close")
engine.close()
"""
    early = """
for step in range(8):
    begin()
    show(engine.current_step(), get("x", [32767], [1]).item())
    engine.end_step()
"""
    with writing(small_node.contact, writer, config) as process:
        steps = read(small_node.contact, early, config)
        assert steps == [[step, step] for step in range(8)]
        wait_for_file(tmp_path / "ended7")
        late = read(small_node.contact, 'begin(); show(engine.current_step(), get("x", [0], [1]).item())', config)
        ((oldest, value),) = late
        assert 0 < oldest == value < 8
        (tmp_path / "close").touch()
        assert finish(process)[0] == 0


def test_a_pinning_reader_holds_also_what_it_has_passed(small_node, tmp_path):
    # The room of the fifth step may have been offered to the writer before the pinning reader joins.
    writer = """
engine = io.open("out", Mode.Write)
x = io.define_variable("x", np.empty(0), [32768], [0], [32768], True)
for step in range(6):
    if step >= 4:
        wait_for(f"passed{step - 1}")
    if step == 4:
        wait_for("joined")
    status = engine.begin_step(StepMode.Append, 0.3 if step >= 4 else -1.0)
    if status == StepStatus.NotReady:
        tell("full")
        engine.begin_step(StepMode.Append, -1.0)
    engine.put(x, np.full(32768, float(step)), Mode.Sync)
    engine.end_step()
engine.close()
"""
    code = """
for step in range(6):
    begin()
    engine.end_step()
    tell(f"passed{step}")
"""
    pinning = """
begin(); engine.end_step()
tell("joined")
wait_for("full")
show("held")
engine.close()
"""
    config = write_config(tmp_path)
    with writing(small_node.contact, writer, config) as process, reading(small_node.contact, code, config) as passing:
        wait_for_file(tmp_path / "passed3")
        assert read(small_node.contact, pinning, write_config(tmp_path, Pin="yes")) == [["held"]]
        assert finish(process)[0] == 0  # room came with the pinning reader's end
        assert finish(passing)[0] == 0
        assert (tmp_path / "passed5").exists()


def test_an_aborted_stream_ends_with_other_error_after_its_last_complete_step(node, config, tmp_path):
    code = READ_ALL.replace("engine.close()", "show(begin(0.0))")
    with writing(node.contact, SLOW_WRITER, config) as writer, reading(node.contact, code, config) as process:
        (tmp_path / "end0").touch()
        (tmp_path / "end1").touch()
        with reading(node.contact, 'begin(); engine.end_step(); begin(); tell("two")', config):
            wait_for_file(tmp_path / "two")
        writer.send_signal(signal.SIGKILL)
        assert shown(process) == [[0, 0], [1, 1], ["OtherError"], ["OtherError"]]


def test_two_streams_and_a_writer_share_a_process(node, tmp_path):
    for stream in ("one", "two"):
        write(node.contact, WRITE_THREE.replace("* 10", f"* {len(stream)}"), write_config(tmp_path, stream=stream))
    config = write_config(tmp_path, stream="three")
    code = """
adios = adios2.Adios()
engines = {}
for stream in ("one", "two", "three"):
    other = adios.declare_io(stream)
    other.set_engine("Plugin")
    other.set_parameters({"PluginName": "bbflow", "PluginLibrary": "bbflow_adios2"})
    if stream == "three":
        total = other.define_variable("total", np.empty(0, np.int64))
    engines[stream] = other, other.open(stream, Mode.Write if stream == "three" else Mode.Read)
for step in range(3):
    sums = 0
    for io, engine in (engines["one"], engines["two"]):
        begin()
        sums += int(get("n"))
        engine.end_step()
    _, out = engines["three"]
    out.begin_step(); out.put(total, np.array(sums)); out.end_step()
for _, engine in engines.values():
    engine.close()
"""
    read(node.contact, code, config, opens=False)
    third = 'while begin() == "OK":\n    show(int(get("total"))); engine.end_step()'
    assert read(node.contact, third, config) == [[0], [6], [12]]


def test_open_numbers_tell_the_opens_of_one_io_apart(node, tmp_path):
    config = write_config(tmp_path, stream="part{open}")
    twice = """
n = io.define_variable("n", np.empty(0, np.int64))
for part in range(2):
    engine = io.open(f"out{part}", Mode.Write)
    engine.begin_step(); engine.put(n, np.array(part + 5)); engine.end_step(); engine.close()
"""
    write(node.contact, twice, config)
    code = 'engine = io.open("in", Mode.Read); begin(); show(int(get("n"))); engine.close()\n'
    assert read(node.contact, code + code, config, opens=False) == [[5], [6]]


def test_a_stream_that_nobody_opens_is_an_error_after_the_timeout(node, tmp_path):
    said = read_wrongly(node.contact, "", write_config(tmp_path, stream="nowhere", OpenTimeoutSecs="3"))
    assert "no writer has opened stream nowhere" in said
    assert "OpenTimeoutSecs" in said


def test_a_reader_without_any_node_says_what_is_missing_after_the_timeout(tmp_path):
    said = read_wrongly(tmp_path / "none.json", "", write_config(tmp_path, OpenTimeoutSecs="0.2"))
    assert "can't read the contact file" in said
    with EmbeddedNodes(1, 1 << 20) as nodes:
        left_over = tmp_path / "left-over.json"
        left_over.write_text(nodes.contact.read_text())
    assert "agent.sock" in read_wrongly(left_over, "", write_config(tmp_path, OpenTimeoutSecs="0.2"))
    contact_key(tmp_path / "early.json")  # as a master does that is there before any node
    said = read_wrongly(tmp_path / "early.json", "", write_config(tmp_path, OpenTimeoutSecs="0.2"))
    assert "has no BB node; waited OpenTimeoutSecs=0.2" in said


def test_a_reader_with_another_secret_is_refused_at_once(node, tmp_path):
    forged = tmp_path / "forged.json"
    contact = json.loads(node.contact.read_text())
    forged.write_text(json.dumps(contact | {"key": "0" * 64}))
    assert "secret" in read_wrongly(forged, "", write_config(tmp_path))


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("begin(); begin()", "BeginStep was called twice"),
        ("engine.end_step()", "EndStep was called without BeginStep"),
        ("engine.begin_step(StepMode.Append, -1.0)", "StepMode::Read only"),
        ('begin(); engine.end_step(); get("n")', "outside of a step"),
        ('begin(); io.inquire_variable("n").set_step_selection([1, 1]); get("n")', "step by step"),
    ],
)
def test_what_a_reader_cannot_do_is_refused_with_the_reason(node, config, code, message):
    write(node.contact, WRITE_THREE, config)
    said = read_wrongly(node.contact, code, config)
    assert "bbflow: " in said
    assert message in said
