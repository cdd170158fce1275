"""LAMMPS with its package ADIOS, unpatched; the judge are its own dumps as text of the same run."""

import numpy as np
import pytest
from adios2 import Stream

SCRIPT = """
units lj
lattice fcc 0.8442
region box block 0 4 0 4 0 4
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 3.0 87287 loop geom
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
fix 1 all nve
region slab block 0 2 INF INF INF INF
group slab dynamic all region slab every 1
compute pe all pe/atom
dump whole all custom/adios 5 dump.bp id type x vx vy vz c_pe
dump whole_text all custom 5 dump.txt id type x vx vy vz c_pe
dump slab slab custom/adios 5 slab.*.bp id x vx
dump slab_text slab custom 5 slab.txt id x vx
dump_modify whole_text sort id format float %.17g
dump_modify slab_text sort id format float %.17g
run 50
"""
STEPS = 11


@pytest.fixture(scope="module")
def lmp(bench, checkout):
    """LAMMPS with nothing but what dumps by ADIOS2 need."""
    source = checkout("lammps", "src/ADIOS/dump_custom_adios.cpp")
    without = [f"-D{name}=off" for name in ("BUILD_OMP", "WITH_JPEG", "WITH_PNG", "WITH_GZIP", "WITH_FFMPEG")]
    options = ["-DPKG_ADIOS=on", "-DBUILD_MPI=on", *without, "-DCMAKE_BUILD_TYPE=Debug"]
    return bench.cmake(source / "cmake", "lammps", ["lmp"], *options) / "lmp"


def tables(path):
    """All tables of a dump as text: column to values for each step."""
    found = []
    for item in path.read_text().split("ITEM: TIMESTEP\n")[1:]:
        head, _, rows = item.partition("ITEM: ATOMS ")
        names, *lines = rows.splitlines()
        values = np.array([line.split() for line in lines], float)
        assert len(values) == int(head.split("ITEM: NUMBER OF ATOMS\n")[1].split()[0])
        found.append(dict(zip(names.split(), values.T, strict=True)))
    assert len(found) == STEPS
    return found


def mean_of(columns):
    return {"space": {"mean": ["atom"]}, "operators": ["mean", "max", "min"], "of": columns}


def check(results, name, steps):
    """Compare the statistics of a number of each step."""
    for how in ("mean", "max", "min"):
        np.testing.assert_allclose(results[f"{name}_run_{how}"][0], getattr(np.array(steps), how)(), rtol=1e-12)


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "in.melt"
    path.write_text(SCRIPT)
    return path


def test_a_dump_in_one_file_and_the_other_dumps_as_ever(bench, lmp, script, tmp_path):
    bench.run_plain(tmp_path / "plain", lmp, "-in", script)
    operators = {
        "x": mean_of("x"), "speed": mean_of("vx**2 + vy**2 + vz**2"), "right": mean_of("where(x > 3, vx, nan)"),
        "pe": {"of": "c_pe", "space": {"sum": ["atom"]}, "operators": ["mean"]}, "natoms": ["min", "max"],
    }  # fmt: skip
    config = {"stream": "dump", "select": {"file": "dump.bp"}, "operators": operators}
    results = bench.fold(tmp_path / "folded", config, lmp, "-in", script)
    assert not (tmp_path / "folded/dump.bp").exists()
    whole = tables(tmp_path / "folded/dump.txt")
    check(results, "x", [step["x"].mean() for step in whole])
    check(results, "speed", [(step["vx"] ** 2 + step["vy"] ** 2 + step["vz"] ** 2).mean() for step in whole])
    check(results, "right", [step["vx"][step["x"] > 3].mean() for step in whole])
    np.testing.assert_allclose(results.pe_run_mean[0], np.mean([step["c_pe"].sum() for step in whole]), rtol=1e-12)
    assert (results.natoms_run_min, results.natoms_run_max) == (256, 256)
    for name in ("plain", "folded"):  # what isn't selected is written
        assert len(list((tmp_path / name).glob("slab.*.bp"))) == STEPS
    with Stream(str(tmp_path / "plain/dump.bp"), "r") as stream:  # the same run, as a file has it
        for step, own in zip(stream.steps(), tables(tmp_path / "plain/dump.txt"), strict=True):
            rows = step.read("atoms")
            np.testing.assert_array_equal(rows[np.argsort(rows[:, 0]), 2], own["x"])


def test_a_file_for_each_step_with_atoms_that_come_and_go(bench, lmp, script, tmp_path):
    config = {"stream": "slab", "select": {"file": "slab.*.bp"}, "operators": {"v": mean_of("vx"), "natoms": ["max"]}}
    results = bench.fold(tmp_path / "folded", config, lmp, "-in", script)
    assert list((tmp_path / "folded").glob("slab.*.bp")) == []
    whole = tables(tmp_path / "folded/slab.txt")
    assert len({len(step["id"]) for step in whole}) > 1
    check(results, "v", [step["vx"].mean() for step in whole])
    assert results.natoms_run_max[0] == max(len(step["id"]) for step in whole)
