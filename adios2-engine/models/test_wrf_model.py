"""WRF's own io_adios2, as it is in its checkout, driven by a small program as WRF drives it."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import adios2
import bbflow_adios2
import numpy as np
import pandas as pd
import pytest
import xarray as xr

FLAGS = ("-O0", "-ffree-form", "-ffree-line-length-none", "-fallow-argument-mismatch")
LIBRARIES = ("-ladios2_fortran_mpi", "-ladios2_fortran", "-ladios2_c_mpi", "-ladios2_c", "-ladios2_core")
DIMS = {"T2": ("south_north", "west_east"), "U10": ("south_north", "west_east_stag")} | {
    "T": ("bottom_top", "south_north", "west_east")
}


@pytest.fixture(scope="module")
def program(bench, checkout):
    """The program with WRF's I/O, built as WRF's Makefile does."""
    source = checkout("wrf", "external/io_adios2/wrf_io.F90") / "external"
    if bench.fortran is None:
        pytest.skip(f"{bench.adios2} has no Fortran modules, or {bench.mpi} no mpif90")
    for tool in ("cpp", "m4"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is missing: apt install {tool}")
    folder = bench.built / "wrf"
    folder.mkdir(exist_ok=True)
    within = [f"-I{bench.fortran}", f"-I{source / 'ioapi_share'}", f"-I{source / 'io_adios2'}"]
    for name in ("wrf_io", "field_routines"):
        words = ["cpp", "-P", "-traditional", *within, source / "io_adios2" / f"{name}.F90", folder / f"{name}.m4"]
        bench.done(words)
        with (folder / f"{name}.f").open("w") as file:
            subprocess.run(["m4", "-Uinclude", "-Uindex", "-Ulen", folder / f"{name}.m4"], check=True, stdout=file)
        bench.done([bench.mpi / "mpif90", *FLAGS, *within, "-c", f"{name}.f"], folder)
    words = [bench.mpi / "mpif90", *FLAGS, "-cpp", *within, Path(__file__).with_name("wrf_model.F90")]
    words += ["wrf_io.o", "field_routines.o", f"-L{libraries(bench)}", f"-Wl,-rpath,{libraries(bench)}", *LIBRARIES]
    bench.done([*words, "-o", "wrf_model"], folder)
    return folder / "wrf_model"


def libraries(bench):
    """Where ADIOS2's are."""
    return next(path.parent for path in sorted(bench.adios2.glob("lib*/**/libadios2_fortran_mpi.so")))


def written(folder):
    """All that is in the files, with dates and names of dimensions."""
    times, fields = [], {name: [] for name in DIMS}
    for path in sorted(folder.glob("wrfout_d01_*")):
        with adios2.Stream(str(path), "r") as stream:
            for _ in stream.steps():
                times.append(pd.Timestamp(stream.read("Times").replace("_", "T")))
                for name, found in fields.items():
                    found.append(stream.read(name))
    return xr.Dataset({name: (("time", *DIMS[name]), np.stack(own)) for name, own in fields.items()}, {"time": times})


@pytest.mark.parametrize("ranks", [1, 3])
def test_the_statistics_are_those_of_wrfs_bp5_files(bench, program, tmp_path, ranks):
    bench.run_plain(tmp_path / "plain", program, ranks=ranks)
    whole = written(tmp_path / "plain")
    assert whole.time.size == 12
    warm = {"of": "T2 - 280", "operators": ["mean"]}
    operators = {"T2": ["mean", "max"], "U10": ["min"], "T": ["mean"], "warm": warm}
    config = {"stream": "d01", "select": {"file": "wrfout_d01_*"}, "operators": operators, "windows": ["day", "month"]}
    results = bench.fold(tmp_path / "folded", config, program, ranks=ranks)
    assert list((tmp_path / "folded").glob("wrfout*")) == []
    days, months = whole.resample(time="D"), whole.resample(time="MS")
    for name, found, expected in (
        ("T2", results.T2_month_mean, months.mean().T2),
        ("T2", results.T2_day_max, days.max().T2),
        ("U10", results.U10_day_min, days.min().U10),
        ("T", results.T_month_mean, months.mean().T),
        ("T2", results.warm_day_mean + 280, days.mean().T2),
    ):
        assert found.dims[1:] == DIMS[name]
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert results.T2_month_mean.attrs["units"] == "K"
    with xr.open_zarr(tmp_path / "folded/out/raw.zarr") as raw:
        np.testing.assert_array_equal(raw.T, whole.T)
        np.testing.assert_array_equal(raw.time, whole.time)


def test_the_engine_learns_how_many_ranks_run_on_a_host(bench, program, tmp_path):
    """With its communicator alone it couldn't place them where BB nodes are on several hosts."""
    tests = Path(__file__).parents[1]
    probe, source = tmp_path / "libprobe.so", tests / "tests/program/probe.cpp"
    within = [f"-I{tests / 'src'}", f"-I{bench.adios2 / 'include'}", f"-L{libraries(bench)}"]
    words = [bench.mpi / "mpicxx", "-std=c++17", "-shared", "-fPIC", *within, source, "-o", probe]
    bench.done([*words, f"-Wl,-rpath,{libraries(bench)}", "-ladios2_cxx", "-ladios2_core"])
    rule = {"file": "wrfout*", "PluginName": "probe", "PluginLibrary": "probe", "Stream": "d01"}
    environment = os.environ | bbflow_adios2.environment("none.json", [rule]) | {"ADIOS2_PLUGIN_PATH": str(tmp_path)}
    words = [bench.mpi / "mpiexec", "-n", "3", program]
    done = subprocess.run(
        words, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert re.search(r" 1 [0-2]/3 beside 3 Fortran 1 Plugin :end", done.stdout + done.stderr), done.stderr
