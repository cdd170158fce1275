import numpy as np
import pytest
from readers import read, read_wrongly

from testsupport.writers import run_program, write, write_config


def complaints(done):
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("done\n")
    return done.stdout.splitlines()[:-1]


def test_every_kind_of_every_type_is_read_as_it_was_written(node, programs, tmp_path):
    config = write_config(tmp_path)
    written = run_program(node, programs, "types", config)
    assert written.returncode == 0, written.stderr
    assert complaints(run_program(node, programs, "types", config, name="reader")) == []


FIELD = """
x = io.define_variable("field", np.empty(0), [4, 6], [0, 0], [4, 6])
engine = io.open("out", Mode.Write)
engine.begin_step()
for start, rows in ((0, 1), (1, 3)):
    x.set_selection([[start, 0], [rows, 6]])
    engine.put(x, np.random.default_rng(start).random((rows, 6)), Mode.Sync)
engine.end_step()
engine.close()
"""


def test_boxes_blocks_and_memory_can_be_selected(node, programs, tmp_path):
    config = write_config(tmp_path)
    write(node.contact, FIELD, config)
    assert complaints(run_program(node, programs, "selections", config, name="reader")) == []


def test_a_block_is_read_by_its_number(node, tmp_path):
    config = write_config(tmp_path)
    write(node.contact, FIELD, config)
    code = """
begin()
variable = io.inquire_variable("field")
for number, rows in enumerate((1, 3)):
    block = np.empty((rows, 6))
    variable.set_block_selection(number)
    engine.get(variable, block)
    engine.perform_gets()
    show(block.tolist())
"""
    blocks = read(node.contact, code, config)
    expected = [np.random.default_rng(number).random((rows, 6)) for number, rows in ((0, 1), (1, 3))]
    assert [block for (block,) in blocks] == [block.tolist() for block in expected]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ('get("field", [2, 0], [3, 6])', "from {2, 0} with count {3, 6} is not inside of the shape {4, 6}"),
        ('io.inquire_variable("field").set_block_selection(2); get("field")', "block 2 was selected, but there are 2"),
    ],
)
def test_a_selection_of_what_is_not_there_is_an_error(node, tmp_path, code, message):
    config = write_config(tmp_path)
    write(node.contact, FIELD, config)
    assert message in read_wrongly(node.contact, "begin(); " + code, config)
