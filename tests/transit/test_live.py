"""What is open is shown as it will be published."""

import numpy as np
import pytest
import xarray as xr

from bbflow.operators import parse_operators
from bbflow.operators.windows import parse_window
from bbflow.operators.windows.calendars import Clock
from bbflow.stream.cf import StreamAttributes
from bbflow.transit.driver.live import live_dataset
from bbflow.transit.output.cf_attributes import stamp_of
from bbflow.transit.output.decoding import open_results
from bbflow.transit.output.fields import ResultField
from bbflow.transit.output.results import Results
from bbflow.transit.spans.timeline import Closing, Span

CLOCK = Clock("days since 2000-11-01", "noleap")
SPANS = {
    "month": [Span((2000, 11), 0.0, 29.0, 30, 2), Span((2000, 12), 30.0, 60.0, 31)],
    "clim_month": [Span((1,), 61.0, 91.0, 31), Span((11,), 0.0, 394.0, 60)],
    "run": [Span((), 0.0, 394.0, 395)],
}


def published(operators, seed):
    random = np.random.default_rng(seed)
    attributes = {"units": "K", "standard_name": "air_temperature", "units_metadata": "temperature: on_scale"}
    found = {}
    for name, dims, shape in (("tas", ("lat", "lon"), (2, 3)), ("global_tas", (), ())):
        arrays = {}
        for operator in operators:
            whole = (*operator.lead, *shape)
            numbers = np.asarray(random.integers(1, 9, whole))
            arrays[operator.name] = numbers.astype(operator.dtype(np.dtype("f4")))
        found[name] = (ResultField(name, "<f4", shape, dims, attributes, {}), operators, arrays)
    return found


@pytest.mark.filterwarnings("ignore:this date/calendar/year zero convention")
def test_climatologies_of_a_calendar_without_a_year_0_have_an_axis():
    clock = Clock.of("days since -0001-11-01", "julian")
    spans = [Span((1,), 61.0, 91.0, 31), Span((11,), 0.0, 29.0, 30)]
    january, november = (Closing(parse_window("clim_month"), (span,), frozenset()) for span in spans)
    first = stamp_of(january, clock)
    assert str(clock.date(first)) == "0001-01-16 12:00:00"
    assert str(clock.date(stamp_of(november, clock, first))) == "0001-11-16 00:00:00"


@pytest.mark.parametrize("window", SPANS)
def test_an_open_span_is_what_it_will_be_when_it_is_published(tmp_path, window):
    operators = parse_operators(["mean", "var", "count", "argmin", {"histogram": {"edges": [0, 5, 10]}}])
    results = Results(tmp_path / "results.zarr", "s", StreamAttributes({"lat/units": "degrees_north"}), CLOCK)
    results.add_coordinate("lat", np.array([-45.0, 45.0]))
    results.commit()
    *closed, last = [Closing(parse_window(window), (span,), frozenset()) for span in SPANS[window]]
    for seed, closing in enumerate(closed):
        results.publish(closing, published(operators, seed), {})
    live = live_dataset(results.path, [(last, published(operators, 9))], CLOCK)
    results.publish(last, published(operators, 9), {})
    with open_results(results.path) as whole:
        xr.testing.assert_identical(live, whole.load())
