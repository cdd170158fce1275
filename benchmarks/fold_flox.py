"""xarray with flox on the steps of the fold, all in memory at once: one group for each 30 days."""

import numpy as np
import xarray as xr

from benchmarks.rates import rate

try:
    from flox.xarray import xarray_reduce
except ImportError:
    xarray_reduce = None


def measure(fields: np.ndarray, edges: np.ndarray, repeat: int) -> dict[str, dict[str, float]]:
    """Measure what flox has of each part, in million points a second; it has no histogram of each point."""
    if xarray_reduce is None:
        print("fold: flox is not installed (pip install flox): its rows are left out")
        return {}
    month = xr.DataArray(np.arange(len(fields)) // 720, dims="time", name="month")
    data = xr.DataArray(fields, dims=("time", "lat", "lon"), name="tas")

    def run(function: str, **more: object) -> float:
        return rate(lambda: xarray_reduce(data, month, func=function, **more), fields.size, repeat)

    return {
        "statistics": {f"xarray+flox: {name}": run(name) for name in ("mean", "std", "min", "max")},
        "percentiles": {"xarray+flox: quantile 0.9": run("quantile", q=0.9)},
    }
