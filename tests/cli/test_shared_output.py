"""An output directory that people share with their own files: a run removes what runs have made, and nothing else."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import bbflow_adios2
import pytest
import xarray as xr
import yaml
from hypothesis import given
from hypothesis import strategies as st

from bbflow.configuring.config import parse_config
from bbflow.errors import ConfigError
from bbflow.host.belongings import MARK
from bbflow.landing.embedded import EmbeddedNodes
from bbflow.report import REPORT_FILES
from bbflow.transit.output.claiming import claim_output, clear_output, locked_output
from testsupport.foreign import assert_untouched, foreign_paths, plant
from testsupport.weather import weather

HOLD = "while step == 1 and len(sys.argv) > 2 and not Path(sys.argv[2]).exists(): time.sleep(0.02)"
MADE = (
    "results.zarr/zarr.json",
    "results.zarr/tas/c/0/0",
    "results.zarr/tas/c.0.0",
    "raw.zarr/time/zarr.json",
    ".raw.zarr.0af/zarr.json",
    ".rows/hot.bb0.0.npy",
    ".settled/.7.bbflow.new",
    "events.jsonl",
    "state.bbflow",
    "results_run.nc",
    "report.html",
)
FOLDERS = (
    "",
    "figures",
    "rescued",
    "rescued/raw.zarr",
    "results.zarr",
    "results.zarr/tas",
    "raw.zarr",
    ".rows",
    "data",
)
NAMES = ("results_old.nc", "zarr.json.bak", "events.txt", "tas.png", "hot.dat")


def config_of(output):
    return parse_config({"stream": "s", "operators": {"tas": ["mean"]}, "netcdf": True, "output": str(output)})


@given(foreign_paths(*FOLDERS, names=NAMES), foreign_paths(*FOLDERS, names=NAMES), st.booleans())
def test_files_of_others_stay_whatever_is_overwritten(before, after, overwrite):
    with tempfile.TemporaryDirectory() as name:
        output = Path(name)
        planted = plant(output, before)
        tops = {path.relative_to(output).parts[0] for path in planted}
        if tops & {"figures", "results.zarr", "raw.zarr", ".rows"}:
            with pytest.raises(ConfigError, match="is in the way, and bbflow didn't make it"):
                claim_output(config_of(output), *REPORT_FILES)
            assert_untouched(planted)
            return
        claim_output(config_of(output), *REPORT_FILES)
        clear_output(output, overwrite=overwrite)
        made = plant(output, map(Path, MADE))
        planted += [path for path in plant(output, after) if path not in made]
        stores = {path for path in planted if path.relative_to(output).parts[0] in ("results.zarr", "raw.zarr")}
        if not overwrite or stores:
            with pytest.raises(ConfigError, match="--overwrite" if not overwrite else "is in the way"):
                clear_output(output, overwrite=overwrite)
            assert_untouched(made)
        else:
            clear_output(output, overwrite=True)
            assert {path for path in output.rglob("*") if path.is_file()} == {*planted, output / MARK}
        assert_untouched(planted)


def test_events_alone_are_in_no_run_s_way(tmp_path):
    """A program that can't be started, or opens no stream, leaves them."""
    claim_output(config_of(tmp_path))
    events, state = tmp_path / "events.jsonl", tmp_path / "state.bbflow"
    events.touch()
    clear_output(tmp_path, overwrite=False)
    assert not events.exists()
    events.touch()
    state.touch()
    with pytest.raises(ConfigError, match=r"state\.bbflow is there from an earlier run"):
        clear_output(tmp_path, overwrite=False)
    assert events.exists()


def test_one_run_at_a_time_writes_into_an_output(tmp_path):
    claim_output(config_of(tmp_path))
    with locked_output(tmp_path), pytest.raises(ConfigError, match="another run writes into"), locked_output(tmp_path):
        pass


def command(directory, *options, go=()):
    content = {"stream": "weather", "output": str(directory / "out"), "operators": {"tas": ["mean"]}, "raw": "all"}
    content |= {"nodes": {"capacity": "4MiB"}, "workers": {"processes": 0, "threads": 1}}
    (directory / "analysis.yml").write_text(yaml.safe_dump(content))
    (directory / "weather.xml").write_text(bbflow_adios2.engine_xml("weather"))
    (directory / "writer.py").write_text(weather(4, HOLD))
    words = [sys.executable, "-m", "bbflow", "run", directory / "analysis.yml", *options, "--"]
    return [
        *map(str, words),
        sys.executable,
        str(directory / "writer.py"),
        str(directory / "weather.xml"),
        *map(str, go),
    ]


def run(directory, *options):
    done = subprocess.run(command(directory, *options), text=True, capture_output=True, timeout=300, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.odd_stores
def test_runs_replace_what_runs_have_made_one_at_a_time_into_an_output_and_of_a_stream(tmp_path):
    output, go = tmp_path / "out", tmp_path / "go"
    planted = plant(output, map(Path, ["thesis.tex", "data/results.zarr/zarr.json", "rescued/notes.txt"]))
    caught = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    other = tmp_path / "other"
    other.mkdir()
    with (
        EmbeddedNodes(1, 4 << 20) as nodes,
        subprocess.Popen(command(tmp_path, "--no-report", "--contact", nodes.contact, go=[go]), **caught) as first,
    ):
        deadline_s = time.monotonic() + 300
        while not (output / "events.jsonl").exists() and time.monotonic() < deadline_s:
            time.sleep(0.02)
        assert "another run writes into" in run(tmp_path, "--overwrite")[1]
        said = run(other, "--contact", nodes.contact)[1]
        assert f"stream 'weather' belongs to the analysis into {output}" in said
        assert not (other / "out" / "events.jsonl").exists(), "neither analysis nor simulation were started"
        go.touch()
        said = first.communicate(timeout=300)[0]
    assert first.returncode == 0, said
    planted += plant(output, map(Path, ["figures/mine.png", "rescued/raw.zarr/notes.txt"]))
    assert "is there from an earlier run: give another output, or --overwrite" in run(tmp_path)[1]
    before = (output / "results.zarr").stat().st_ino
    code, said = run(tmp_path, "--overwrite")
    assert code == 0, said
    assert (output / "results.zarr").stat().st_ino != before
    assert xr.open_zarr(output / "results.zarr").steps_run.values == [4]
    assert_untouched(planted)


@pytest.mark.odd_stores
def test_what_has_the_name_of_a_result_and_is_of_others_is_never_replaced(tmp_path):
    planted = plant(tmp_path / "out", map(Path, ["results.zarr/zarr.json", "figures/mine.png"]))
    code, said = run(tmp_path, "--overwrite")
    assert code != 0
    assert "is in the way, and bbflow didn't make it: move it, or give another" in said
    assert_untouched(planted)
