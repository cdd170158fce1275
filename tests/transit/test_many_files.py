"""One stream of very many files, as models write them that open one for each day, with processes killed among them."""

import os
import sys

import mainjob
import numpy as np
import psutil
import pytest
import xarray as xr
from victims import find, finish, wait_for_folds, worker_of

from testsupport.processes import words_of

FILES = 2000
LATE, END = 1200, 1900
"""Files after which memory is looked at: when the last killed process has long been started again, and near the end."""
PROGRAM = """
import os
import sys
import adios2
import numpy as np
from adios2.bindings import Mode

def told():
    pages = int(open("/proc/self/statm").read().split()[1])
    return f"{pages * os.sysconf('SC_PAGE_SIZE')} {len(os.listdir('/proc/self/fd'))}\\n"

io = adios2.Adios().declare_io("history")
io.set_engine("BP5")
io.define_attribute("time/units", "days since 2000-01-01")
time = io.define_variable("time", np.zeros(1))
tas = io.define_variable("tas", np.zeros((40, 50)), [40, 50], [0, 0], [40, 50])
for n in range(FILES):
    engine = io.open(f"h.{n:04}.bp", Mode.Write)
    engine.begin_step()
    engine.put(time, np.array([float(n)]), Mode.Sync)
    engine.put(tas, np.arange(2000.0).reshape(40, 50) * np.sin(n), Mode.Sync)
    engine.end_step()
    engine.close()
    if n % 100 == 0:
        with open(sys.argv[1], "a") as progress:
            progress.write(told())
""".replace("FILES", str(FILES))


def most_memory(process):
    """Bytes of each of a run's own processes by its command; the simulation tells of itself."""
    found = {}
    for child in psutil.Process(process.pid).children(recursive=True):
        words = words_of(child)
        if "bbflow" in words and "run" not in words:
            found[words[words.index("bbflow") + 1]] = child.memory_info().rss
    return found


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.cold
def test_two_thousand_files_with_kills_among_them_lose_nothing_and_nothing_grows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(PROGRAM)
    progress = tmp_path / "progress"
    config = mainjob.write_config(
        tmp_path, stream="history", select={"file": "h.*.bp"}, operators={"tas": ["mean", "min", "max", "count"]},
        nodes={"capacity": "512KiB"}, raw="none", windows=["run"], workers={"processes": 1, "batch_steps": 4},
    )  # fmt: skip
    process = mainjob.start_run(config, [sys.executable, "model.py", str(progress)])
    victims = {
        10: lambda: worker_of(find(process, "bbflow fold")),
        40: lambda: find(process, "bbflow fold"),
        70: lambda: find(process, "bbflow node"),
        100: lambda: worker_of(find(process, "bbflow fold")),
    }
    for count, victim in victims.items():
        wait_for_folds(process, tmp_path / "out", count)
        victim().kill()
    wait_for_folds(process, tmp_path / "out", LATE // 4)
    before = most_memory(process)
    wait_for_folds(process, tmp_path / "out", END // 4)
    after = most_memory(process)
    code, said = finish(process)
    assert code == 0, said
    assert set(before) == set(after) >= {"node", "fold"}
    assert all(after[name] - before[name] < 8 << 20 for name in before), (before, after)
    told = np.array([line.split() for line in progress.read_text().splitlines()], int)
    assert len(told) == FILES // 100
    assert len(set(told[2:, 1])) == 1, told
    assert told[-1, 0] - told[2, 0] < 4 << 20, told
    assert {name for path in tmp_path.glob("h.*.bp") for name in os.listdir(path)} == {"bbflow-stream.txt"}  # no data
    whole = np.sin(np.arange(FILES))[:, None, None] * np.arange(2000.0).reshape(40, 50)
    with xr.open_zarr(tmp_path / "out/results.zarr") as results:
        np.testing.assert_array_equal(results.tas_run_count[0], FILES)
        np.testing.assert_allclose(results.tas_run_mean[0], whole.mean(0), rtol=1e-9, atol=1e-9)
        np.testing.assert_array_equal(results.tas_run_min[0], whole.min(0))
        np.testing.assert_array_equal(results.tas_run_max[0], whole.max(0))
        assert results.attrs["bbflow_status"] == "complete"
