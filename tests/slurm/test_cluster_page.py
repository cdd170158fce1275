"""The scripts of docs/cluster.md, run as they stand on a real Slurm."""

import re
import stat
import sys
import tempfile
from pathlib import Path

import bbflow_adios2
import numpy as np
import pytest
import xarray as xr
import yaml
from batch import NODES, batch_system, lacking

PAGE = Path(__file__).parents[2] / "docs" / "cluster.md"
STEPS = 40
MODEL = """#!{python}
import os, sys
import adios2
import numpy as np
from adios2.bindings import Mode
rank, ranks = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
io = adios2.Adios(sys.argv[1]).declare_io("weather")
time = io.define_variable("time", np.zeros(1))
tas = io.define_variable("tas", np.empty(0, "f4"), [ranks, 6], [rank, 0], [1, 6], True)
io.define_attribute("time/units", "days since 2001-01-01")
io.define_attribute("time/calendar", "360_day")
engine = io.open("weather", Mode.Write)
for step in range({steps}):
    engine.begin_step()
    if rank == 0:
        engine.put(time, np.array([float(step)]), Mode.Sync)
    engine.put(tas, np.full((1, 6), 100 * rank + step, "f4"), Mode.Sync)
    engine.end_step()
engine.close()
"""


@pytest.fixture(scope="module")
def slurm():
    if reason := lacking():
        pytest.skip(reason)
    with tempfile.TemporaryDirectory(prefix="bbslurm-") as folder, batch_system(Path(folder)) as batch:
        yield batch


@pytest.fixture
def submit(tmp_path):
    """A directory with a model, its XML and an analysis."""
    model = tmp_path / "model"
    model.write_text(MODEL.format(python=sys.executable, steps=STEPS))
    model.chmod(model.stat().st_mode | stat.S_IXUSR)
    (tmp_path / "model.xml").write_text(bbflow_adios2.engine_xml("weather"))
    content = {"stream": "weather", "output": "out", "operators": {"tas": ["mean", "max"]}, "raw": "all"}
    (tmp_path / "analysis.yml").write_text(yaml.safe_dump(content))
    return tmp_path


def block(language, word, **instead):
    """Return the page's block with a word, with sizes for a small machine."""
    (text,) = [found for found in re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL) if word in found]
    for old, new in instead.items():
        assert old in text
        text = text.replace(old, new)
    return text


def assert_right(folder, ranks):
    results = xr.open_zarr(folder / "out" / "results.zarr")
    assert results.attrs["bbflow_status"] == "complete"
    expected = 100 * np.arange(ranks)[:, None] + np.zeros(6)
    np.testing.assert_allclose(results.tas_month_mean.values, [expected + 14.5, expected + 34.5])
    np.testing.assert_array_equal(results.tas_run_max.values[0], expected + STEPS - 1)
    assert xr.open_zarr(folder / "out" / "raw.zarr").sizes["time"] == STEPS


def assert_nothing_left(slurm):
    """No pool, no contact file's key, no state in any host's memory."""
    left = [path for node in NODES for path in (slurm.hosts.memory / node).rglob("*") if path.is_file()]
    assert left == []


def test_the_job_script_of_the_page(slurm, submit):
    small = {"64GiB": "4MiB", "--nodes=4": "--nodes=2", "--ntasks-per-node=32": "--ntasks-per-node=3"}
    text = block("bash", "#SBATCH", **small)
    (submit / "job.sh").write_text(text)
    job = slurm.run("sbatch", "--parsable", "job.sh", cwd=submit).strip()
    ended = slurm.wait_for(job)
    assert ended == ("COMPLETED", "0:0"), (submit / f"slurm-{job}.out").read_text() + slurm.logs()
    assert_right(submit, 6)
    assert_nothing_left(slurm)


def test_the_cluster_of_jobs_of_the_page(slurm, submit):
    small = {"64GiB": "4MiB", "80GB": "1GB", "jobs=4": "jobs=2", "workers(4)": "workers(2)", '"16"': '"4"'}
    text = block("python", "SLURMCluster", **small).replace("/shared/run", str(submit))
    (submit / "jobs.py").write_text(f"if __name__ == '__main__':\n{re.sub('^', '    ', text, flags=re.MULTILINE)}")
    slurm.run(sys.executable, "jobs.py", cwd=submit)
    assert_right(submit, 4)
