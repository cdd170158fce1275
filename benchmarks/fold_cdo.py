"""CDO on the steps of the fold: a whole process that reads one file in memory and writes another."""

import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import xarray as xr

from benchmarks.rates import rate


def measure(fields: np.ndarray, edges: np.ndarray, repeat: int) -> dict[str, dict[str, float]]:
    """Measure what CDO has of each part, in million points a second."""
    if not shutil.which("cdo"):
        print("fold: cdo is not installed (apt install cdo): its rows are left out")
        return {}
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="bbflow-bench-") as name:
        source, target = Path(name) / "in.nc", Path(name) / "out.nc"
        time_axis = ("time", np.arange(float(len(fields))), {"units": "hours since 2000-01-01"})
        data = xr.Dataset({"tas": (("time", "lat", "lon"), fields)}, {"time": time_axis})
        data.to_netcdf(source, engine="scipy", format="NETCDF3_64BIT")

        def run(*command: object) -> float:
            line = ["cdo", "-s", "-P", "1", *map(str, command), target]
            return rate(lambda: subprocess.run(line, check=True), fields.size, repeat)

        return {
            "statistics": {f"CDO: {name}": run(name, source) for name in ("timmean", "timstd", "timmin", "timmax")},
            "percentiles": {
                "CDO: timpctl,90 (of 101 bins)": run("timpctl,90", source, "-timmin", source, "-timmax", source)
            },
            "histogram": {"CDO: histcount, 50 bins": run("histcount," + ",".join(map(str, edges)), source)},
        }
