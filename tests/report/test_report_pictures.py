import numpy as np
import pytest
from synthetic_run import write_events

from bbflow.report.canvas import bands
from bbflow.report.drawn_fields import DrawnAxis, area_mean, axis_kind, choose_level
from bbflow.report.quantities import choose_display, pretty_units
from bbflow.report.run_events import Events, EventSpan, read_events
from bbflow.report.run_timeline import backlog, busy_share, draw_timeline, timeline_rows


def latitudes(count):
    return DrawnAxis("lat", "lat", (np.arange(count) + 0.5) * 180 / count - 90, "°N")


def spans(*times):
    return [EventSpan("bb0", start, end, 0) for start, end in times]


def test_the_area_mean_of_one_hemisphere_is_a_half():
    lat, lon = latitudes(180), DrawnAxis("lon", "lon", np.arange(10) * 36.0, "°E")
    values = np.where(lat.values[:, None] > 0, 1.0, 0.0) * np.ones((180, 10))
    assert area_mean(values, (lat, lon)) == pytest.approx(0.5)


def test_the_area_mean_of_sine_squared_is_a_third():
    lat = latitudes(720)
    assert area_mean(np.sin(np.deg2rad(lat.values)) ** 2, (lat,)) == pytest.approx(1 / 3, rel=1e-4)


def test_the_area_mean_leaves_out_missing_cells():
    values = np.full(4, 7.0)
    values[:2] = np.nan
    assert area_mean(values, (latitudes(4),)) == pytest.approx(7.0)
    assert np.isnan(area_mean(np.full(4, np.nan), (latitudes(4),)))


@pytest.mark.parametrize(("units", "wanted"), [("Pa", 50000.0), ("hPa", 500.0)])
def test_the_level_nearest_500_hpa_is_chosen(units, wanted):
    factor = 100.0 if units == "Pa" else 1.0
    levels = DrawnAxis("plev", "plev", np.array([1000.0, 850.0, 500.0, 100.0]) * factor, units)
    assert levels.values[choose_level(levels)] == wanted


def test_dimensions_are_known_by_attributes_before_names():
    assert axis_kind("y", {"units": "degrees_north"}) == "lat"
    assert axis_kind("longitude", {}) == "lon"
    assert axis_kind("cell", {}) == "other"


def test_temperatures_are_shown_in_celsius_and_their_spread_in_kelvin():
    mean = choose_display("K", "mean", 220.0, 310.0, 310.0)
    assert (mean.units, float(mean.apply(np.float64(273.15)))) == ("°C", 0.0)
    spread = choose_display("K", "std", 0.0, 9.0, 310.0)
    assert (spread.units, spread.offset) == ("K", 0.0)


def test_a_temperature_difference_stays_in_kelvin_with_zero_in_the_middle():
    shown = choose_display("K", "mean", -2.0, 3.0, 3.0)
    assert (shown.units, shown.offset, shown.symmetric) == ("K", 0.0, True)


def test_water_fluxes_are_shown_in_mm_a_day_and_their_sums_as_stored():
    assert choose_display("kg m-2 s-1", "max", 0, 1e-3, 1e-3).units == "mm day⁻¹"
    assert choose_display("kg m-2 s-1", "sum", 0, 1, 1).units == "kg m⁻² s⁻¹"


@pytest.mark.parametrize(
    ("units", "shown"), [("m s-1", "m s⁻¹"), ("W m**-2", "W m⁻²"), ("1", ""), ("", ""), ("m^2", "m²")]
)
def test_units_are_written_as_in_print(units, shown):
    assert pretty_units(units) == shown


@pytest.mark.parametrize("limits", [(0.0, 0.0), (5.0, 5.0), (-1e-12, 1e-12), (980.0, 1040.0), (0.0, 3e20)])
def test_bands_cover_the_range_and_rise(limits):
    edges = bands(*limits, symmetric=False)
    assert edges[0] <= limits[0]
    assert edges[-1] >= limits[1]
    assert (np.diff(edges) > 0).all()


def test_busy_time_counts_once_where_spans_overlap():
    share = busy_share(spans((1.0, 2.0), (1.5, 3.0), (1.6, 1.7)), 0.0, 4.0, 4)
    assert share == pytest.approx([0.0, 1.0, 1.0, 0.0])


def test_busy_time_is_the_same_as_counting_by_hand():
    random = np.random.default_rng(3)
    starts = random.uniform(0, 100, 400)
    work = spans(*zip(starts, starts + random.uniform(0, 0.4, 400), strict=True))
    fine = np.zeros(1_000_000, bool)
    for span in work:
        fine[round(span.started_s * 1e4) : round(span.ended_s * 1e4)] = True
    assert busy_share(work, 0.0, 100.0, 50) == pytest.approx(fine.reshape(50, -1).mean(axis=1), abs=2e-3)


def test_the_backlog_is_that_of_the_node_furthest_behind():
    landed = tuple(EventSpan("simulation", step, step + 0.5, 1, step, step) for step in range(4))
    folds = (
        EventSpan("bb0", 1.6, 2.0, 1, 0, 1),
        EventSpan("bb1", 1.6, 3.0, 1, 0, 1),
        EventSpan("bb0", 3.6, 4.0, 1, 2, 3),
    )
    times, steps = backlog(Events(landed=landed), folds)
    assert dict(zip(times, steps, strict=True)) == {0.5: 1, 1.5: 2, 2.0: 2, 2.5: 3, 3.0: 1, 3.5: 2, 4.0: 2}


def test_only_steps_that_are_kept_wait_to_be_drained():
    landed = tuple(EventSpan("simulation", step, step + 0.5, 1, step, step) for step in range(12))
    drains = (EventSpan("bb0", 9.0, 9.2, 1, 0, 4, every=4), EventSpan("bb0", 11.6, 12.0, 1, 8, 8, every=4))
    times, steps = backlog(Events(landed=landed), drains)
    assert dict(zip(times, steps, strict=True)) == {
        **{step + 0.5: step // 4 + 1 for step in range(9)},
        **{9.2: 1, 9.5: 1, 10.5: 1, 11.5: 1, 12.0: 0},
    }


def test_a_timeline_has_a_row_for_each_kind_and_node(tmp_path):
    write_events(tmp_path / "events.jsonl", steps=96)
    rows = timeline_rows(read_events(tmp_path / "events.jsonl"))
    assert list(rows) == ["simulation", "fold bb0", "fold bb1", "drain bb0", "drain bb1", "publish"]


def test_a_timeline_of_fifty_thousand_steps_shows_shares_of_time():
    landed = tuple(EventSpan("simulation", step * 0.1, step * 0.1 + 0.04, 1, step, step) for step in range(50_000))
    picture = draw_timeline(Events(landed=landed, folds=landed))
    assert "share of time that was busy" in picture.caption


def test_a_timeline_of_one_instant_is_drawn():
    assert draw_timeline(Events(landed=(EventSpan("simulation", 5.0, 5.0, 1, 0, 0),))) is not None
    assert draw_timeline(Events()) is None
