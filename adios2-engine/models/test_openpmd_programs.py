"""openPMD-api as it is in its checkout, with a small program that writes by it; it reads its own files as the judge."""

import json
from pathlib import Path

import numpy as np
import pytest

ITERATIONS, RANKS = 10, 3
ENCODINGS = {
    "variable_based": ("simData.bp5", "/data/", "linear"),
    "group_based": ("simData.bp5", "/data/{iteration}/", "random"),
    "file_based": ("simData_%T.bp5", "/data/{iteration}/", "random"),
}
"""Iteration encoding to the name of the series, how variables' names begin, and how it can be read."""


@pytest.fixture(scope="module")
def program(bench, checkout):
    """The program, with openPMD-api built against the ADIOS2; that needs nlohmann_json and toml11."""
    source = checkout("openpmd", "include/openPMD/openPMD.hpp")
    without = [f"-DopenPMD_{name}=OFF" for name in ("SUPERBUILD", "USE_HDF5", "USE_PYTHON", "BUILD_TESTING")]
    options = ["-DopenPMD_USE_ADIOS2=ON", "-DopenPMD_USE_MPI=ON", *without, "-DBUILD_TESTING=OFF"]
    built = bench.cmake(source, "openpmd", ["openPMD"], *options, "-DCMAKE_BUILD_TYPE=Debug")
    target = built / "openpmd_model"
    within = [f"-I{source / 'include'}", f"-I{built / 'include'}", f"-L{built / 'lib'}", f"-Wl,-rpath,{built / 'lib'}"]
    words = [bench.mpi / "mpicxx", "-std=c++17", *within, Path(__file__).with_name("openpmd_model.cpp"), "-lopenPMD"]
    bench.done([*words, "-o", target])
    return target


@pytest.mark.parametrize("put", ["put", "span"])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_every_encoding_has_the_statistics_of_its_files(bench, program, tmp_path, encoding, put):
    series, begin, access = ENCODINGS[encoding]
    words = [program, "write", series, json.dumps({"iteration_encoding": encoding}), put]
    bench.run_plain(tmp_path / "plain", *words, ranks=RANKS)
    told = bench.done([program, "read", series, access], tmp_path / "plain")
    whole = np.array([line.split() for line in told.splitlines()[-ITERATIONS:]], float).reshape(ITERATIONS, -1, 5)
    operators = {f"{begin}meshes/E/x": ["mean", "max"], f"{begin}particles/e/momentum/x": ["max"]}
    config = {"stream": "pic", "select": {"file": "simData*"}, "operators": operators}
    config |= {"time": {"units": "seconds since 2000-01-01"}, "windows": ["run", {"steps": 5}]}
    results = bench.fold(tmp_path / "folded", config, *words, ranks=RANKS)
    assert list((tmp_path / "folded").glob("simData*")) == []
    (field,) = (name.removesuffix("_run_mean") for name in results if name.endswith("E_x2F_x_run_mean"))
    (momentum,) = (results[name][0] for name in results if name.endswith("momentum_x2F_x_run_max"))
    assert results[f"{field}_run_mean"].dims == ("time_run", "y", "x")
    assert results[f"{field}_run_mean"].units == "m kg s-3 A-1"
    np.testing.assert_allclose(results[f"{field}_run_mean"][0], whole.mean(0), rtol=1e-14)
    np.testing.assert_array_equal(results[f"{field}_run_max"][0], whole.max(0))
    np.testing.assert_array_equal(results[f"{field}_steps5_max"][1], whole[5:].max(0))
    np.testing.assert_array_equal(momentum, whole[-1].ravel()[: 4 * RANKS])
    ends = results.time_run_bnds.values.ravel().astype("datetime64[s]")
    np.testing.assert_array_equal(ends, np.array(["2000-01-01T00:00:00", "2000-01-01T00:00:09"], "M8[s]"))
