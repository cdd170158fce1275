"""The engine for another ADIOS2 is built from what a wheel has installed, without a checkout."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import xarray as xr

import bbflow

ROOT = Path(__file__).parents[2]
ENVIRONMENT = (
    "import bbflow_adios2, json, sys; print(json.dumps(bbflow_adios2.environment(sys.argv[1], [{'io': 'model'}])))"
)
MODEL = """
import numpy as np
import adios2

io = adios2.Adios().declare_io("model")
io.set_engine("BP5")
with adios2.Stream(io, "out.bp", "w") as stream:
    stream.begin_step()
    stream.write("field", np.arange(4.0), [4], [0], [4])
    stream.end_step()
"""


def said(*words, cwd, **environment):
    """Run a command to its good end; return what it said."""
    done = subprocess.run(words, env=os.environ | environment, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.timeout(1200)  # all native parts are built, and the engine once more
def test_a_wheel_brings_what_the_engine_is_built_from(tmp_path):
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", tmp_path, ROOT]
    said(*pip, cwd=tmp_path, BBFLOW_MOUNT="OFF")
    (wheel,) = tmp_path.glob("*.whl")
    said(sys.executable, "-m", "venv", "venv", cwd=tmp_path)
    python = tmp_path / "venv" / "bin" / "python"
    for packages in (["--no-deps", wheel], ["adios2==2.11.*", "numpy", "cmake"]):
        said(python, "-m", "pip", "install", "-q", *packages, cwd=tmp_path)
    adios2 = said(python, "-c", "import adios2, os; print(os.path.dirname(adios2.__file__))", cwd=tmp_path)
    (engine,) = said(python, "-m", "bbflow_adios2", "build", "--adios2", adios2, cwd=tmp_path).splitlines()
    assert engine.startswith(str(tmp_path / "venv"))
    assert engine.endswith("libbbflow_engine_2.11.so")
    with bbflow.start_nodes(1, "4MiB") as buffer:
        environment = json.loads(said(python, "-c", ENVIRONMENT, buffer.contact, cwd=tmp_path))
        said(python, "-c", MODEL, cwd=tmp_path, **environment)
        with xr.open_dataset(buffer.contact, engine="bbflow", stream="model") as dataset:
            assert dataset.field.values.tolist() == [[0.0, 1.0, 2.0, 3.0]]
