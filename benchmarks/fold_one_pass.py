"""one_pass on one day of the steps of the fold, hour by hour; t-digests of a smaller field, since they take long."""

import logging
import tempfile

import numpy as np
import xarray as xr

from benchmarks.rates import rate

try:
    from one_pass.opa import Opa
except ImportError:
    Opa = None

SMALL = 64
"""Points along each side for percentiles and the histogram."""
COMPRESSION = 60


def measure(fields: np.ndarray, edges: np.ndarray, repeat: int) -> dict[str, dict[str, float]]:
    """Measure what one_pass has of each part, in million points a second."""
    if Opa is None:
        print(
            "fold: one_pass is not installed: its rows are left out (PyPI's ONE_PASS is something else; take its "
            "source from github.com/DestinE-Climate-DT/one_pass, then 'pip install crick netcdf4')"
        )
        return {}
    logging.getLogger("one_pass").setLevel(logging.ERROR)
    day, small = fields[:24], fields[:24, :SMALL, :SMALL]
    return {
        "statistics": {f"one_pass: {name}": _rate(day, repeat, stat=name) for name in ("mean", "std", "min", "max")},
        "percentiles": {
            "one_pass: percentile 0.9": _rate(
                small, repeat, stat="percentile", percentile_list=[0.9], compression=COMPRESSION
            )
        },
        "histogram": {
            "one_pass: histogram, 50 bins": _rate(small, repeat, stat="histogram", bins=50, compression=COMPRESSION)
        },
    }


def _rate(fields: np.ndarray, repeat: int, **request: object) -> float:
    hours = np.datetime64("2000-01-01", "ns") + np.arange(len(fields)) * np.timedelta64(1, "h")
    places = {"lat": np.arange(float(fields.shape[1])), "lon": np.arange(float(fields.shape[2]))}
    data = xr.DataArray(fields, {"time": hours, **places}, ("time", "lat", "lon"), "tas")
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="bbflow-bench-") as name:
        common = {
            "variable": "tas", "time_step": 60, "stat_freq": "daily", "output_freq": "daily", "save": False,
            "checkpoint": False, "save_filepath": name, "checkpoint_filepath": name,
        }  # fmt: skip

        def run() -> None:
            statistic = Opa({**common, **request})
            for hour in range(len(fields)):
                result = statistic.compute(data.isel(time=slice(hour, hour + 1)))
            if result is None:
                raise AssertionError("one_pass gave no result for a whole day")

        return rate(run, fields.size, repeat)
