import pytest
from readers import read, read_wrongly

from testsupport.processes import finish
from testsupport.writers import run_program, write, write_config, writing


@pytest.fixture
def config(tmp_path):
    return write_config(tmp_path)


def test_each_step_shows_the_attributes_as_they_were_at_that_step(node, programs, config):
    assert run_program(node, programs, "attributes", config).returncode == 0
    code = 'while begin() == "OK":\n    show(attributes()); engine.end_step()'
    always = {"still": 7, "tick/units": "s"}
    expected = [
        {"mood": "calm", "fine": 1.0, "ladder": [1, 2, 3]},
        {"mood": "wild", "fine": 1.0 + 1e-12, "ladder": [1, 2, 4]},
        {"mood": "wild", "fine": 1.0 + 2e-12, "ladder": [1, 2, 4, 8], "late": 1},
    ]
    shown = read(node.contact, code, config)
    assert shown == [[always | step] for step in expected]


def test_a_late_reader_sees_the_attributes_from_before_the_oldest_step(small_node, config):
    writer = """
engine = io.open("out", Mode.Write)
x = io.define_variable("x", np.empty(0), [32768], [0], [32768], True)
io.define_attribute("first", "seen")
for step in range(8):
    engine.begin_step()
    engine.put(x, np.full(32768, float(step)), Mode.Sync)
    engine.end_step()
wait_for("close")
engine.close()
"""
    early = """
for step in range(8):
    begin(); engine.end_step()
show("read")
"""
    with writing(small_node.contact, writer, config) as process:
        assert read(small_node.contact, early, config) == [["read"]]
        assert read(small_node.contact, "begin(); show(engine.current_step() > 0, attributes())", config) == [
            [True, {"first": "seen"}]
        ]
        (config.parent / "close").touch()
        assert finish(process)[0] == 0


CHANGING = """
engine = io.open("out", Mode.Write)
a = io.define_variable("a", np.empty(0), [2, 2], [0, 0], [2, 2])
b = io.define_variable("b", np.empty(0, np.int64))
for step in range(4):
    engine.begin_step()
    a.set_shape([2 + step, 3])
    a.set_selection([[0, 0], [2 + step, 3]])
    if step != 2:
        engine.put(a, np.arange(3.0 * (2 + step)).reshape(2 + step, 3), Mode.Sync)
    if step % 2 == 0:
        engine.put(b, np.array(step))
    engine.end_step()
engine.close()
"""


def test_shapes_change_and_variables_come_and_go(node, config):
    write(node.contact, CHANGING, config)
    code = """
while begin() == "OK":
    names = sorted(io.available_variables())
    a = io.inquire_variable("a")
    show(names, a.shape() if a else None, get("a").tolist() if a else None, bool(io.inquire_variable("b")))
    engine.end_step()
"""
    whole = {rows: [[3.0 * row + column for column in range(3)] for row in range(rows)] for rows in (2, 3, 5)}
    assert read(node.contact, code, config) == [
        [["a", "b"], [2, 3], whole[2], True],
        [["a"], [3, 3], whole[3], False],
        [["b"], None, None, True],
        [["a"], [5, 3], whole[5], False],
    ]


def test_a_handle_stays_valid_while_each_step_has_the_variable(node, config):
    write(node.contact, CHANGING, config)
    code = """
begin()
a = io.inquire_variable("a")
a.set_selection([[1, 0], [1, 2]])
engine.end_step()
begin()
show(a.shape(), a.count())
"""
    assert read(node.contact, code, config) == [[[3, 3], [3, 3]]]


def test_a_variable_may_change_its_type_and_rank(node, config):
    writer = """
engine = io.open("out", Mode.Write)
for step, example in enumerate((np.zeros(4), np.zeros((2, 2)), np.zeros((2, 2), np.int32), np.array(3))):
    engine.begin_step()
    shape = list(example.shape)
    x = io.define_variable("x", example, shape, [0] * len(shape), shape)
    engine.put(x, example + step, Mode.Sync)
    engine.end_step()
    io.remove_variable("x")
engine.close()
"""
    write(node.contact, writer, config)
    code = """
while begin() == "OK":
    x = io.inquire_variable("x")
    show(x.type(), x.shape(), np.ravel(get("x")).tolist())
    engine.end_step()
"""
    assert read(node.contact, code, config) == [
        ["double", [4], [0] * 4],
        ["double", [2, 2], [1] * 4],
        ["int32_t", [2, 2], [2] * 4],
        ["int64_t", [], [6]],
    ]


def test_a_variable_that_the_reader_defines_itself_is_not_overwritten(node, config):
    write(node.contact, CHANGING, config)
    said = read_wrongly(node.contact, 'io.define_variable("b", np.empty(0, np.int64)); begin()', config)
    assert "the stream has a variable b" in said
