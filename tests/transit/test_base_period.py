"""Indices of the run's own base period, from daily steps, and their thresholds for another run."""

import numpy as np
import pytest

from bbflow.operators.file_fields import FileField, parse_fields
from testsupport.programs import run_program

UNITS, YEARS, DAYS, SHAPE = "days since 2001-01-01", 2, 360, (2, 3)
RANDOM = np.random.default_rng(5)
TAS = (280 + RANDOM.normal(0, 5, (YEARS * DAYS, *SHAPE))).astype("f4")
TAS[:, 1, 2] = np.nan
TAS[17:40, 0, 0] = np.nan
OF_YEAR = TAS.reshape(YEARS, DAYS, *SHAPE).astype("f8")
BASE = {"base": [2001, 2002], "days": 1}


@pytest.mark.filterwarnings("ignore:All-NaN slice")
def test_days_beyond_the_base_period_are_those_of_the_whole_and_its_percentiles_serve_another_run(tmp_path):
    attributes = {"tas/_ARRAY_DIMENSIONS": ["lat", "lon"], "tas/units": "K", "time/units": UNITS}
    percentile = {"base_percentile": {**BASE, "length": DAYS}}
    operators = {
        "tas": [{"TX90p": BASE}],
        "table": {"of": "tas", "each": {"day": "max"}, "windows": ["run"], "operators": [percentile]},
    }
    config = {"operators": operators, "time": {"variable": "time"}}
    ranks = [[[("time", float(step)), ("tas", values)] for step, values in enumerate(TAS)]]
    ran = run_program(tmp_path, ranks, config, attributes | {"time/calendar": "360_day"})
    assert (ran.outcome.complete, ran.told) == (True, "")
    for year in range(YEARS):  # of two years, the one that isn't judged is there twice: its values are the percentiles
        other = OF_YEAR[1 - year]
        valid = ~np.isnan(OF_YEAR[year]) & ~np.isnan(other)
        expected = 100 * (OF_YEAR[year] > other).sum(axis=0) / np.where(valid.any(axis=0), valid.sum(axis=0), np.nan)
        np.testing.assert_allclose(ran.results.tas_run_TX90p[0, year], expected)
    limits = np.nanquantile(OF_YEAR, 0.9, axis=0, method="median_unbiased")
    np.testing.assert_allclose(ran.results.table_run_base_percentile[0], limits)
    assert ran.results.tas_TX90p_year.values.tolist() == [2001, 2002]
    (field,) = parse_fields(
        {"tx90": {"file": str(ran.output / "results.zarr"), "variable": "table_run_base_percentile"}}
    ).values()
    assert isinstance(field, FileField)
    field.check_calendar("360_day")
    np.testing.assert_allclose(field.read(("lat", "lon"), SHAPE, {}), limits)
