"""ADIOS2's own examples: an engine that XML sets, and programs of C and C++ that read none."""

import numpy as np
import pytest
from adios2 import FileReader

STEPS = 7


@pytest.fixture(scope="module")
def examples(checkout):
    """ADIOS2's examples in its checkout."""
    return checkout("examples", "examples/simulations/heatTransfer/CMakeLists.txt") / "examples"


def test_heat_transfer_whose_xml_says_bp5(bench, examples, tmp_path):
    source = examples / "simulations/heatTransfer"
    built = bench.cmake(source / "write", "heat", ["adios2_simulations_heatTransferWrite"])
    words = [built / "adios2_simulations_heatTransferWrite", source / "heat_bp5.xml", "heat.bp"]
    words += [2, bench.ranks // 2, 6, 5, STEPS - 1, 2]
    bench.run_plain(tmp_path / "plain", *words)
    with FileReader(str(tmp_path / "plain/heat.bp")) as file:
        whole = file.read("T", step_selection=[0, STEPS]).reshape(STEPS, 12, 10)
    config = {"stream": "heat", "select": {"file": "heat.bp"}, "operators": {"T": ["mean", "min", "max", "count"]}}
    results = bench.fold(tmp_path / "folded", config, *words)
    assert not (tmp_path / "folded/heat.bp").exists()
    assert results.T_run_mean.shape == (1, 12, 10)
    np.testing.assert_allclose(results.T_run_mean[0], whole.mean(0), rtol=1e-14)
    np.testing.assert_array_equal(results.T_run_min[0], whole.min(0))
    np.testing.assert_array_equal(results.T_run_max[0], whole.max(0))
    np.testing.assert_array_equal(results.T_run_count[0], np.full((12, 10), STEPS))


@pytest.mark.parametrize("language", ["", "_c"])
def test_hello_that_reads_no_xml(bench, examples, tmp_path, language):
    program = f"adios2_hello_bpWriter{language}_mpi"
    built = bench.cmake(examples / "hello/bpWriter", "hello", [program])
    bench.run_plain(tmp_path / "plain", built / program)
    (written,) = (tmp_path / "plain").glob("*.bp")
    with FileReader(str(written)) as file:
        whole = {name: file.read(name) for name in file.available_variables() if name in ("bpFloats", "bpInts")}
    assert whole
    config = {"stream": "hello", "select": {"file": "*.bp"}, "operators": {name: ["mean", "max"] for name in whole}}
    results = bench.fold(tmp_path / "folded", config, built / program)
    assert list((tmp_path / "folded").glob("*.bp")) == []
    for name, values in whole.items():
        np.testing.assert_array_equal(results[f"{name}_run_mean"][0], values)
        np.testing.assert_array_equal(results[f"{name}_run_max"][0], values)
