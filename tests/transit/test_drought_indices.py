"""SPI and SPEI by xclim of the monthly means that a run has published are those of its days."""

import numpy as np
import pytest
import streams
import xarray as xr

from bbflow import open_results

pytestmark = pytest.mark.readers
UNITS, DAYS = "days since 1991-01-01", 8 * 365


def fields():
    random, season = np.random.default_rng(1), np.sin(2 * np.pi * np.arange(DAYS) / 365)[:, None, None]
    rain = np.where(random.random((DAYS, 2, 3)) < 0.5, random.exponential(6 + 3 * season, (DAYS, 2, 3)), 0)
    return {"pr": rain, "evspsblpot": 2 + season + random.random((DAYS, 2, 3))}


@pytest.mark.filterwarnings("default")
def test_drought_indices_of_monthly_results_are_those_of_the_days(tmp_path):
    indices = pytest.importorskip("xclim.indices", reason="'make readers-suite' installs it")
    made, units = fields(), {"pr/units": "mm/day", "evspsblpot/units": "mm/day"}
    dims = {f"{name}/_ARRAY_DIMENSIONS": ["lat", "lon"] for name in made}
    times = np.arange(DAYS)
    streams.store(tmp_path, made, times, {"time/units": UNITS, "time/calendar": "noleap", **units, **dims})
    operators = {"pr": ["monmean"], "balance": {"of": "pr - evspsblpot", "operators": ["monmean"]}}
    streams.analyse(tmp_path, {"operators": operators, "raw": "none"})
    dates = xr.date_range("1991-01-01", periods=DAYS, freq="D", calendar="noleap", use_cftime=True)
    given = {"dims": ("time", "lat", "lon"), "coords": {"time": dates}, "attrs": {"units": "mm/day"}}
    pr, balance = (xr.DataArray(own, **given) for own in (made["pr"], made["pr"] - made["evspsblpot"]))
    how = {"window": 3, "dist": "gamma", "method": "ML", "fitkwargs": {"floc": 0}}
    with open_results(tmp_path / "out" / "results.zarr") as results:
        months = xr.date_range("1991-01-01", periods=96, freq="MS", calendar="noleap", use_cftime=True)
        monthly = [
            results[name].rename(time_month="time").assign_coords(time=months).assign_attrs(units="mm/day").load()
            for name in ("pr_month_mean", "balance_month_mean")
        ]
    spi = indices.standardized_precipitation_index
    found, expected = spi(monthly[0], freq=None, **how), spi(pr, freq="MS", **how)
    assert np.isfinite(expected).sum() > 500
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)
    spei, how = indices.standardized_precipitation_evapotranspiration_index, how | {"fitkwargs": {"floc": -100}}
    np.testing.assert_allclose(
        spei(monthly[1], freq=None, **how), spei(balance, freq="MS", **how), rtol=1e-4, atol=1e-6
    )
