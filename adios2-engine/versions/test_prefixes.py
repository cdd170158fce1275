"""A C++ program with each ADIOS2 that the user names: `make test-versions PREFIXES='FOLDER …'`."""

import os
import subprocess
from pathlib import Path

import bbflow_adios2
import numpy as np
import pytest
import xarray as xr
from bbflow_adios2.__main__ import build_engine

import bbflow

BP5 = '<adios-config><io name="model"><engine type="BP5"/></io></adios-config>'
STEPS, ROWS, COLUMNS = 4, 4, 6


@pytest.fixture(scope="module")
def built(prefix, tmp_path_factory):
    """Folder with the engine for that ADIOS2, built as users build it, and the program."""
    folder = tmp_path_factory.mktemp("built")
    assert build_engine(Path(prefix), folder)
    configure = ["cmake", "-S", Path(__file__).parent, "-B", folder, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}"]
    subprocess.run(configure, check=True)
    subprocess.run(["cmake", "--build", folder], check=True)
    return folder


@pytest.fixture
def kinds(built, tmp_path):
    """Runs the program to its good end; gives what it said."""

    def run(*words, environment=()):
        done = subprocess.run(
            [built / "kinds", *words],
            env=os.environ | dict(environment) | {"ADIOS2_PLUGIN_PATH": str(built)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_a_program_reads_what_it_would_read_from_bp5(kinds, tmp_path):
    (tmp_path / "bp5.xml").write_text(BP5)
    (tmp_path / "model.xml").write_text(bbflow_adios2.engine_xml("model"))
    kinds("write", "bp5.xml", "out.bp")
    truth = kinds("read", "bp5.xml", "out.bp")
    assert truth.count("step ") == 2 * STEPS
    with bbflow.start_nodes(1, "4MiB") as buffer:
        environment = bbflow_adios2.environment(buffer.contact)
        kinds("write", "model.xml", "out", environment=environment)
        assert kinds("read", "model.xml", "out", environment=environment) == truth


def test_a_program_that_sets_bp5_in_its_code_is_selected_from_outside(kinds, tmp_path):
    with bbflow.start_nodes(1, "4MiB") as buffer:
        environment = bbflow_adios2.environment(buffer.contact, [{"io": "model", "Stream": "chosen"}])
        kinds("write", "-", "out.bp", environment=environment)
        assert not (tmp_path / "out.bp").exists()
        with xr.open_dataset(buffer.contact, engine="bbflow", stream="chosen") as dataset:
            steps, rows, columns = np.ogrid[:STEPS, :ROWS, :COLUMNS]
            assert (dataset.field.values == 100.0 * steps + COLUMNS * rows + columns).all()
            assert dataset.attrs["title"] == "kinds"
