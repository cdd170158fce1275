"""The same program with each version of ADIOS2 that PyPI has: `make test-versions`."""

import os
import subprocess
import sys
from pathlib import Path

import bbflow_adios2
import numpy as np
import pytest
import xarray as xr
from bbflow_adios2.__main__ import build_engine

import bbflow

VERSIONS = ["2.10.1.*", "2.11.*", "2.12.*"]
STEPS = 5
PROGRAM = """
import sys
import numpy as np
import adios2

adios = adios2.Adios(sys.argv[1])
io = adios.declare_io("model")
io.set_parameter("StatsLevel", "0")
io.define_attribute("title", "versions")
with adios2.Stream(io, "out", "w") as stream:
    for step in range(STEPS):
        stream.begin_step()
        stream.write("time", np.float64(step))
        stream.write("field", step + np.arange(24.0).reshape(4, 6), [4, 6], [0, 0], [4, 6])
        stream.end_step()

io = adios2.Adios().declare_io("reader")  # one of an XML would be parsed a second time, which 2.10 can't
io.set_engine("Plugin")
io.set_parameters({"PluginName": "bbflow", "PluginLibrary": "bbflow_adios2", "Stream": "model"})
with adios2.Stream(io, "out", "r") as stream:
    seen = 0
    while stream.begin_step() == adios2.bindings.StepStatus.OK:
        read = stream.read("field", [1, 2], [2, 3])
        assert (read == seen + np.arange(24.0).reshape(4, 6)[1:3, 2:5]).all(), (seen, read)
        stream.end_step()
        seen += 1
assert seen == STEPS, seen
""".replace("STEPS", str(STEPS))


@pytest.fixture(scope="module", params=VERSIONS)
def python(request, tmp_path_factory):
    """Python with one of the versions."""
    folder = tmp_path_factory.mktemp("version")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", f"adios2=={request.param}", "numpy"], check=True)
    return python


def test_the_same_program_lands_and_reads_the_same(python, tmp_path):
    code = "import adios2, os; print(os.path.dirname(adios2.__file__))"
    adios2 = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()
    engines = tmp_path / "engines"
    assert build_engine(Path(adios2), engines)
    (tmp_path / "model.xml").write_text(bbflow_adios2.engine_xml("model"))
    with bbflow.start_nodes(1, "4MiB") as buffer:
        environment = os.environ | bbflow_adios2.environment(buffer.contact) | {"ADIOS2_PLUGIN_PATH": str(engines)}
        words = [python, "-c", PROGRAM, tmp_path / "model.xml"]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        with xr.open_dataset(buffer.contact, engine="bbflow", stream="model") as dataset:
            wanted = np.arange(STEPS)[:, np.newaxis, np.newaxis] + np.arange(24.0).reshape(4, 6)
            assert (dataset.field.values == wanted).all()
            assert dataset.attrs["title"] == "versions"
