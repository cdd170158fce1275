"""Arrays in the order of Fortran: what lands is what BP5 shows a reader in row-major order."""

import subprocess
import sys
from pathlib import Path

import adios2
import numpy as np
import pytest

from testsupport.writers import PATIENCE_S, arrays_of, clean_environment, steps_of, watch, write, write_config

PROGRAM = Path(__file__).with_name("c_program.py")
LIBRARY = Path(adios2.__file__).with_name("libadios2_c.so")

# An array of 6 by 4 in which element (i, j) is i + 100 j, as Fortran keeps it; its second half is another block.
FIELD = """
a = np.add.outer(np.arange(6.0), 100 * np.arange(4)).ravel(order="F")
field = adios.variable(io, "a", [6, 4], [0, 0], [6, 2])
ghosts = adios.variable(io, "ghosts", [6, 4], [0, 0], [6, 4])
adios.call("set_memory_selection", ghosts, 2, [1, 0], [8, 4])
local = adios.variable(io, "local", None, None, [2, 3])
engine = adios.open(io, WRITE)
adios.begin(engine)
adios.call("put", engine, field, a, SYNC)
adios.call("set_selection", field, 2, [0, 2], [6, 2])
adios.call("put", engine, field, a[12:], SYNC)
wide = np.full((8, 4), -1.0)
wide[1:7] = a.reshape((6, 4), order="F")
adios.call("put", engine, ghosts, wide.ravel(order="F"), SYNC)
adios.call("put", engine, local, a, SYNC)
adios.call("end_step", engine)
adios.call("close", engine)
"""
DECLARED = 'io = adios.io("model")\n'
READER = """
io = adios.io("model")
engine = adios.open(io, READ)
assert adios.begin(engine, 2)
for name in ("a", "ghosts"):
    variable, shape = adios.inquire(io, name)
    assert shape == (6, 4), shape
    got = np.zeros(24)
    adios.call("get", engine, variable, got, SYNC)
    assert (got.reshape((6, 4), order="F") == np.add.outer(np.arange(6.0), 100 * np.arange(4))).all(), got
variable, _ = adios.inquire(io, "a")
adios.call("set_selection", variable, 2, [2, 1], [3, 2])
adios.call("set_memory_selection", variable, 2, [1, 1], [5, 4])
part = np.full(20, -1.0)
adios.call("get", engine, variable, part, SYNC)
part = part.reshape((5, 4), order="F")
assert (part[1:4, 1:3] == [[102, 202], [103, 203], [104, 204]]).all(), part
assert (part == -1).sum() == 14
adios.call("end_step", engine)
adios.call("close", engine)
"""


def run_c(contact, config, code, language):
    return subprocess.run(
        [sys.executable, PROGRAM, language, config, LIBRARY, code],
        env=clean_environment(contact), capture_output=True, text=True, timeout=PATIENCE_S,
    )  # fmt: skip


def fields_of(node):
    (step,) = steps_of(watch(node))
    found = {}
    for name, array in arrays_of(node, step):
        found.setdefault(name, []).append(array)
    return {name: np.concatenate(arrays) for name, arrays in found.items()}


@pytest.mark.parametrize(
    ("language", "declared", "parameters", "is_column_major"),
    [
        ("Fortran", DECLARED, {}, True),
        ("Matlab", DECLARED, {}, True),
        ("C", DECLARED, {}, False),
        ("C++", 'io = adios.io("model", order=1)\n', {}, True),
        ("Fortran", 'io = adios.io("model", order=0)\n', {}, False),
        ("C", DECLARED, {"ArrayOrder": "ColumnMajor"}, True),
        ("Fortran", DECLARED, {"ArrayOrder": "rowmajor"}, False),
    ],
)
def test_what_lands_is_what_a_row_major_reader_sees(node, tmp_path, language, declared, parameters, is_column_major):
    done = run_c(node.contact, write_config(tmp_path, **parameters), declared + FIELD, language)
    assert done.returncode == 0, done.stderr
    found = fields_of(node)
    if is_column_major:
        wanted = np.add.outer(100 * np.arange(4), np.arange(6.0))
        assert (found["a"] == wanted).all()
        assert (found["ghosts"] == wanted).all()
        assert found["local"].tolist() == [[0, 1], [2, 3], [4, 5]]
    else:
        assert (found["a"].shape, found["ghosts"].shape) == ((12, 2), (6, 4))
        assert found["local"].tolist() == [[0, 1, 2], [3, 4, 5]]


def test_bp5_shows_the_same_axes(tmp_path):
    config = tmp_path / "bp5.xml"
    config.write_text('<adios-config><io name="model"><engine type="BP5"/></io></adios-config>')
    done = subprocess.run(
        [sys.executable, PROGRAM, "Fortran", config, LIBRARY, DECLARED + FIELD],
        cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    with adios2.FileReader(str(tmp_path / "out.bp")) as file:
        wanted = np.add.outer(100 * np.arange(4), np.arange(6.0))
        assert (file.read("a") == wanted).all()
        assert file.read("local", block_id=0).tolist() == [[0, 1], [2, 3], [4, 5]]


def test_a_fortran_program_reads_its_own_order(node, tmp_path):
    config = write_config(tmp_path)
    for code in (DECLARED + FIELD, READER):
        done = run_c(node.contact, config, code, "Fortran")
        assert done.returncode == 0, done.stderr + done.stdout


def test_a_fortran_program_reads_what_python_has_written_in_its_order(node, tmp_path):
    code = """
with adios2.Stream(io, "out", "w") as s:
    s.begin_step()
    for name in ("a", "ghosts"):
        s.write(name, np.add.outer(100 * np.arange(4), np.arange(6.0)), [4, 6], [0, 0], [4, 6])
"""
    config = write_config(tmp_path)
    write(node.contact, code, config)
    done = run_c(node.contact, config, READER, "Fortran")
    assert done.returncode == 0, done.stderr + done.stdout
