"""SCORPIO's own example programs, with its own converter as the judge."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

PROGRAMS = ("example_num_frames", "adios2pio-nm.exe")


@pytest.fixture(scope="module")
def built(bench, checkout):
    """The folder in which SCORPIO's CMake has built its examples and its converter."""
    source = checkout("scorpio", "examples/adios/example_num_frames.c")
    if shutil.which("nc-config") is None:
        pytest.skip("NetCDF is missing, which SCORPIO needs: apt install libnetcdf-dev")
    parts = ("TIMING", "FORTRAN", "DOC"), ("EXAMPLES", "TOOLS")
    options = [f"-DPIO_ENABLE_{name}=OFF" for name in parts[0]] + [f"-DPIO_ENABLE_{name}=ON" for name in parts[1]]
    options += ["-DWITH_ADIOS2=ON", "-DWITH_PNETCDF=OFF", f"-DNetCDF_PATH={netcdf(bench.built / 'netcdf')}"]
    return bench.cmake(source, "scorpio", PROGRAMS, *options, "-DCMAKE_BUILD_TYPE=Debug")


def netcdf(folder):
    """Lay NetCDF's header and library out as SCORPIO looks for them, wherever a distribution has them."""
    for name, pattern in (("include", "netcdf*.h"), ("lib", "libnetcdf.so*")):
        (folder / name).mkdir(parents=True, exist_ok=True)
        told = subprocess.check_output(["nc-config", "--libdir" if name == "lib" else "--includedir"], text=True)
        for path in Path(told.strip()).glob(pattern):
            target = folder / name / path.name
            target.unlink(missing_ok=True)
            target.symlink_to(path)
    return folder


def program(built, name):
    """Find what was built."""
    return next(path for path in built.rglob(name) if path.is_file())


def converted(bench, built, folder, bp):
    """Return a BP5 file as SCORPIO's converter writes it."""
    words = [program(built, PROGRAMS[-1]), f"--bp-file={bp}", "--nc-file=converted.nc", "--pio-format=netcdf"]
    bench.done([bench.mpi / "mpiexec", "-n", 1, *words], folder)
    with xr.open_dataset(folder / "converted.nc", decode_times=False) as found:
        return found.load()


def test_frames_of_a_decomposed_field(bench, built, tmp_path):
    own = program(built, "example_num_frames")
    bench.run_plain(tmp_path / "plain", own)
    (bp,) = (tmp_path / "plain").glob("*.bp")
    whole = converted(bench, built, tmp_path / "plain", bp.name)
    assert whole.foo.shape == (3, 12)
    config = {"stream": "frames", "select": {"file": "*.bp"}, "operators": {"foo": ["mean", "min", "max", "count"]}}
    results = bench.fold(tmp_path / "folded", config, own)
    assert list((tmp_path / "folded").glob("*.bp*")) == []
    for name in ("mean", "min", "max"):
        np.testing.assert_array_equal(results[f"foo_run_{name}"][0], getattr(whole.foo, name)("time"))
    np.testing.assert_array_equal(results.foo_run_count[0], 3)
