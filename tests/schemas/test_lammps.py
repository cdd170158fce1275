"""LAMMPS' dumps as they are: atoms that move from rank to rank, come and go, with columns by their names."""

import os
import subprocess
import sys
from types import SimpleNamespace

import adios2
import bbflow_adios2
import numpy as np
import pytest
import xarray as xr

from bbflow import start_nodes
from bbflow.errors import ConfigError, StreamError
from bbflow.schemas.lammps import Lammps
from bbflow.schemas.schema import LandedStep
from bbflow.schemas.testing import SchemaTests
from bbflow.stream.layouts import BlockForm, Layout
from bbflow.stream.records import Step
from bbflow.transit.output.decoding import open_results

PROGRAM = """
import sys
import adios2
import numpy as np
from adios2.bindings import Mode

xml, target, rank, ranks, lengths = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), eval(sys.argv[5])
names = ["id", "type", "x", "vx", "c_pe", "c_1[2]"]
adios = adios2.Adios(xml)
io = adios.declare_io("custom")
u8, double = np.zeros(1, np.uint64), np.zeros(1)
single = {"ntimestep": u8, "natoms": u8, "nprocs": np.zeros(1, np.int32), "ncolumns": np.zeros(1, np.int32)}
single |= dict.fromkeys(["boxxlo", "boxxhi", "boxylo", "boxyhi", "boxzlo", "boxzhi", "boxxy", "boxxz", "boxyz"], double)
variables = {name: io.define_variable(name, like) for name, like in single.items()}
io.define_attribute("triclinic", np.int32(0))
io.define_attribute("boundary", np.zeros(6, np.int32))
io.define_attribute("columns", names)
io.define_attribute("columnstr", " ".join(names))
io.define_attribute("boundarystr", "pp pp pp")
io.define_attribute("LAMMPS/dump_style", "custom")
io.define_attribute("LAMMPS/version", "29 Aug 2024")
io.define_attribute("LAMMPS/num_ver", "20240829")
local = adios2.bindings.LocalValueDim
for name in ("nme", "offset"):
    variables[name] = io.define_variable(name, u8, [local], [], [])
atoms = io.define_variable("atoms", double, [1, len(names)], [1, 0], [1, len(names)])
engine = None
for step, length in enumerate(lengths):
    table = np.random.default_rng(step).normal(size=(length, len(names)))
    first, end = (length * part * part // ranks**2 for part in (rank, rank + 1))
    atoms.set_shape([length, len(names)])
    atoms.set_selection([[first, 0], [end - first, len(names)]])
    if engine is None or "*" in target:
        engine = io.open(target.replace("*", str(step * 100)), Mode.Write)
    engine.begin_step()
    if rank == 0:
        engine.put(variables["ntimestep"], np.array([step * 100], np.uint64))
        engine.put(variables["nprocs"], np.array([ranks], np.int32))
        for name in [name for name in single if name.startswith("box")][:6]:
            engine.put(variables[name], np.array([1.5]))
    for name, value in (("natoms", length), ("nme", end - first), ("offset", first)):
        engine.put(variables[name], np.array([value], np.uint64))
    engine.put(variables["ncolumns"], np.array([len(names)], np.int32))
    engine.put(atoms, np.ascontiguousarray(table[first:end]), Mode.Sync)
    engine.end_step()
    if "*" in target:
        engine.close()
if "*" not in target:
    engine.close()
"""
LENGTHS = [20, 20, 21, 25, 20, 3, 3, 40]
ATOMS = {"mean": ["atom"]}
OPERATORS = {
    "warm": {"of": "vx**2 + x", "space": ATOMS, "operators": ["mean", "max"]},
    "pe": {"of": "c_pe", "space": {"max": ["atom"]}, "operators": ["max", "last"]},
    "odd": {"of": "`c_1[2]`", "space": {"sum": ["atom"]}, "operators": ["min"]},
    "how_many": {"of": "natoms", "operators": ["max", "mean"]},
    "fast": {"of": "vx > 1", "space": {"sum": ["atom"]}, "operators": ["mean"]},
}


def steps_of(folder, target, lengths=LENGTHS):
    """The tables that the program's BP5 output has."""
    (folder / "program.py").write_text(PROGRAM)
    (folder / "bp5.xml").write_text("<adios-config/>")
    words = [sys.executable, folder / "program.py", folder / "bp5.xml"]
    subprocess.run([*words, folder / target, "0", "1", str(lengths)], check=True, timeout=300)
    files = dict.fromkeys(target.replace("*", str(step * 100)) for step in range(len(lengths)))
    tables = []
    for file in files:
        with adios2.Stream(str(folder / file), "r") as stream:
            tables += [stream.read("atoms") for _ in stream.steps()]
    return tables


def write(folder, buffer, ranks, target, lengths):
    """Run the program, whose dump is the stream; where it runs it finds a directory of its file's name."""
    place = folder / "run"
    place.mkdir()
    chosen = bbflow_adios2.environment(buffer.contact, [{"io": "custom", "Stream": "dump"}])
    environment = os.environ | chosen | {"PMI_SIZE": str(ranks)}
    words = [sys.executable, folder / "program.py", folder / "bp5.xml", target]
    writers = [
        subprocess.Popen(
            [*words, str(rank), str(ranks), str(lengths)], env=environment | {"PMI_RANK": str(rank)}, cwd=place
        )
        for rank in range(ranks)
    ]
    assert [writer.wait(120) for writer in writers] == [0] * ranks


def run(folder, ranks, target, **more):
    (folder / "program.py").write_text(PROGRAM)
    (folder / "bp5.xml").write_text("<adios-config/>")
    config = {"stream": "dump", "windows": ["run"], "output": str(folder / "out"), "operators": OPERATORS,
              "workers": {"processes": 0, "threads": 1}}  # fmt: skip
    with start_nodes(1, "64MiB") as buffer, buffer.analyse(config | more) as analysis:
        write(folder, buffer, ranks, target, LENGTHS)
        outcome = analysis.wait(300)
    assert outcome is not None
    return outcome


@pytest.mark.parametrize(("ranks", "target"), [(1, "dump.bp"), (2, "dump.bp"), (1, "dump.*.bp")])
def test_statistics_of_columns_are_those_of_the_table(tmp_path, ranks, target):
    tables = steps_of(tmp_path, target)
    assert run(tmp_path, ranks, target).complete
    with open_results(tmp_path / "out" / "results.zarr") as found:
        warm = [(table[:, 3] ** 2 + table[:, 2]).mean() for table in tables]
        np.testing.assert_allclose([found.warm_run_mean[0], found.warm_run_max[0]], [np.mean(warm), max(warm)])
        assert found.pe_run_max[0] == max(table[:, 4].max() for table in tables)
        assert found.pe_run_last[0] == tables[-1][:, 4].max()
        np.testing.assert_allclose(found.odd_run_min[0], min(table[:, 5].sum() for table in tables))
        assert found.how_many_run_max[0] == max(LENGTHS)
        np.testing.assert_allclose(found.fast_run_mean[0], np.mean([(table[:, 3] > 1).sum() for table in tables]))


def test_kept_steps_have_the_columns_as_tables(tmp_path):
    tables = steps_of(tmp_path, "dump.bp")
    run(tmp_path, 2, "dump.bp", raw="all", operators={"how_many": {"of": "natoms", "operators": ["max"]}})
    with xr.open_zarr(tmp_path / "out" / "raw.zarr", group="vx_blocks") as raw:
        np.testing.assert_array_equal(raw.value, np.concatenate([table[:, 3] for table in tables]))


@pytest.mark.parametrize("host", ["here", "elsewhere"])
def test_a_column_is_read_where_it_lies_or_from_another_host(tmp_path, host, monkeypatch):
    (table,) = steps_of(tmp_path, "dump.bp", [20])
    with start_nodes(1, "64MiB") as buffer:
        write(tmp_path, buffer, 2, "dump.bp", [20])
        if host == "elsewhere":
            monkeypatch.setattr("bbflow.view.source.socket", SimpleNamespace(gethostname=lambda: host))
        with xr.open_dataset(buffer.contact, engine="bbflow", stream="dump", timeout_s=60.0) as found:
            for column, name in enumerate(["id", "type", "x", "vx", "c_pe", "c_1[2]"]):
                np.testing.assert_array_equal(found[name][0], table[:, column])
            assert found.vx.dims[-1] == "atom"
            np.testing.assert_array_equal(found.vx[0, 7:13], table[7:13, 3])


def test_statistics_of_each_row_are_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"a row of x is another atom in each step.*space: {mean: \[atom\]}"):
        run(tmp_path, 1, "dump.bp", operators={"x": ["mean"]})


def test_a_table_with_other_columns_than_names_is_refused():
    form = BlockForm("atoms", "double", "GlobalArray", (2, 3), (0, 0), (2, 3), 0, 0, 0, 48)
    step = Step(0, Layout.of((form,)), (4096).to_bytes(8, "little"))
    with pytest.raises(StreamError, match=r"3 columns of atoms.*the names of 2"):
        Lammps().steps(LandedStep({"a": step}, None, {"columns": ["x", "y"]}))


class TestLammps(SchemaTests):
    """What holds for all schemas."""

    def make(self):
        return Lammps()

    def landed(self):
        table = BlockForm("atoms", "double", "GlobalArray", (4, 2), (0, 0), (4, 2), 0, 0, 0, 64)
        number = BlockForm("ntimestep", "uint64_t", "GlobalValue", (), (), (), 0)
        layout = Layout.of((table, number))
        return [{"a": Step(n, layout, (4096).to_bytes(8, "little"), values=(n,))} for n in range(3)]

    def read(self, node, number, block):
        raise AssertionError("nothing is read")

    def attributes(self):
        return {"LAMMPS/dump_style": "custom", "columns": ["x", "vx"], "columnstr": "x vx", "triclinic": 0}
