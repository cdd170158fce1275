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


IN_CODE = """
import numpy as np
import adios2

io = adios2.Adios().declare_io("model")
io.set_engine("BP5")
with adios2.Stream(io, "out.bp", "w") as stream:
    for step in range(STEPS):
        stream.begin_step()
        stream.write("field", step + np.arange(4.0), [4], [0], [4])
        stream.end_step()
print(adios2.__version__)
""".replace("STEPS", str(STEPS))
"""Reads no XML: only from outside it can be selected."""


@pytest.fixture(scope="module", params=VERSIONS)
def python(request, tmp_path_factory):
    """Python with one of the versions."""
    folder = tmp_path_factory.mktemp("version")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", f"adios2=={request.param}", "numpy"], check=True)
    return python


@pytest.fixture(scope="module")
def engines(python, tmp_path_factory):
    """Folder of the engine for that version, built as users build it."""
    code = "import adios2, os; print(os.path.dirname(adios2.__file__))"
    adios2 = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()
    folder = tmp_path_factory.mktemp("engines")
    assert build_engine(Path(adios2), folder)
    return folder


def test_the_same_program_lands_and_reads_the_same(python, engines, tmp_path):
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


def test_what_is_selected_from_outside_lands_or_is_noted_as_what_cannot_be(python, engines, tmp_path):
    notes = tmp_path / "opens"
    notes.touch()
    with bbflow.start_nodes(1, "4MiB") as buffer:
        rules = [{"io": "model", "Stream": "chosen"}]
        told = {"ADIOS2_PLUGIN_PATH": str(engines), bbflow_adios2.OPENS_VARIABLE: str(notes)}
        environment = os.environ | bbflow_adios2.environment(buffer.contact, rules) | told
        words = [python, "-c", IN_CODE]
        done = subprocess.run(
            words, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stderr
        (kind,) = {line.split("\t")[0] for line in notes.read_text().splitlines()}
        is_old = done.stdout.startswith("2.10")
        assert kind == ("old" if is_old else "selected")
        assert (tmp_path / "out.bp").exists() == is_old
        if not is_old:
            with xr.open_dataset(buffer.contact, engine="bbflow", stream="chosen") as dataset:
                assert (dataset.field.values == np.arange(STEPS)[:, np.newaxis] + np.arange(4.0)).all()
