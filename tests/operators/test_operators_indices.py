"""The indices, computed by the operators that they mean, against CDO's eca_ and etccdi_ and against NumPy."""

import re
import shutil
import subprocess
from dataclasses import replace
from functools import cache
from itertools import chain

import cftime
import numpy as np
import pytest
import xarray as xr
import yaml

from bbflow.errors import ConfigError
from bbflow.operators import StateLayout, fold_steps
from bbflow.operators.configured import parse_diagnostics
from bbflow.operators.file_fields import FileField
from bbflow.operators.names.indices import DEFAULT_UNITS as DEFAULT
from bbflow.operators.names.indices import INDICES, index_meaning, same_units
from bbflow.operators.names.known import NAMES, meaning
from bbflow.operators.steps import Steps
from bbflow.operators.windows import parse_window
from bbflow.operators.windows.calendars import Clock
from bbflow.stream.cf import StreamAttributes
from bbflow.stream.records import Block
from bbflow.transit.output.fields import field_of

CLOCK = Clock("days since 1999-10-05", "noleap")
STEPS_A_DAY, DAYS, POINTS = 4, 500, 5
TIMES = np.arange(STEPS_A_DAY * DAYS) / STEPS_A_DAY
DATES = CLOCK.dates(TIMES)
CDO = pytest.mark.skipif(shutil.which("cdo") is None, reason="needs the program cdo (Debian's package of that name)")


def temperatures():
    random = np.random.default_rng(4)
    season = 283 + 15 * np.sin(2 * np.pi * TIMES / 365)
    return (season[:, None] + random.normal(0, 5, (len(TIMES), POINTS))).astype("f4")


def rain_rates():
    """Rain on some days only, in kg m-2 s-1."""
    random = np.random.default_rng(5)
    wet = np.repeat(random.random((DAYS, POINTS)) < 0.4, STEPS_A_DAY, axis=0)
    return np.where(wet, random.exponential(10 / 86400, wet.shape), 0.0)


def statistic(operator, values):
    layout = StateLayout.of([operator], dtype=values.dtype, points=POINTS)
    state = bytearray(layout.nbytes)
    fold_steps(layout, None, state, list(np.ascontiguousarray(values)))
    return operator.finalize(layout, state)


def in_parts(operator, values):
    """Fold points as two blocks, the one on from a stored state, the other as two states that are merged."""
    found, half = [], len(values) // 2
    for points, goes_on in ((slice(0, 2), True), (slice(2, None), False)):
        own = np.ascontiguousarray(values[:, points])
        layout = StateLayout.of([operator], dtype=own.dtype, points=own.shape[1])
        first, state = bytearray(layout.nbytes), bytearray(layout.nbytes)
        fold_steps(layout, None, first, list(own[:half]), steps=range(half))
        stored = bytes(first)
        fold_steps(layout, stored if goes_on else None, state, list(own[half:]), steps=range(half, len(own)))
        if not goes_on:
            layout.combine(stored, state, state)
        found.append(operator.finalize(layout, state))
    return np.concatenate(found, axis=-1)


def spans(window, dates):
    """Which steps are in each unit span, and the dates of the last one."""
    keys = [window.key(date, step) for step, date in enumerate(dates)]
    found = {}
    for at, key in enumerate(keys):
        found.setdefault(key, []).append(at)
    return found


@cache
def units_of(window):
    """The steps of each unit span of `DATES`."""
    return [*spans(window, DATES).values()]


FIELDS = {
    "K": 283 + 15 * np.sin(2 * np.pi * np.arange(365) / 365)[:, None] + np.arange(POINTS),
    "mm": 4.0 + np.arange(POINTS),
}
"""Thresholds of each day of the year, and fixed ones."""


@pytest.fixture(scope="module")
def threshold_files(tmp_path_factory):
    """A folder of files with thresholds of both kinds."""
    folder = tmp_path_factory.mktemp("thresholds")
    write(folder / "K.nc", FIELDS["K"], "K", np.arange(88, 88 + 365.0))  # the days of 2000
    with xr.open_dataset(folder / "K.nc", engine="scipy", decode_times=False) as days:
        days.isel(time=0, drop=True).drop_attrs().to_netcdf(folder / "thresholds.nc", engine="scipy")
    write(folder / "mm.nc", FIELDS["mm"], "mm", [0.0])
    for name, own in FIELDS.items():
        np.save(folder / f"{name}.npy", own.reshape(-1, POINTS))
    return folder


@pytest.fixture(autouse=True)
def _beside_thresholds(threshold_files, monkeypatch):
    monkeypatch.chdir(threshold_files)


def beside(diagnostic, dates):
    """What `then` has beside the days, step by step."""
    fields = {}
    for name, item in diagnostic.fields.items():
        held = item.held_in(f"{item.units}.npy") if isinstance(item, FileField) else item
        keys = [{} if item.window is None else {item.window.name: item.window.key(date)} for date in dates]
        fields[name] = Steps([held.part(key, (0,), (POINTS,)) for key in keys])
    return fields


def evaluate(means, values):
    """What a diagnostic gives, by the records that a run takes: each, then, operator, window."""
    diagnostic = parse_diagnostics({"x": [means]}, [])["x"]
    units = units_of(diagnostic.each.window)
    keeps = diagnostic.each.window.keeps
    lasts = range(keeps - 1, len(units))
    chosen = [list(chain(*units[last - keeps + 1 : last + 1])) for last in lasts]
    days = np.stack([statistic(diagnostic.each.operator, values[steps]) for steps in chosen])
    if diagnostic.then:
        fields = beside(diagnostic, [DATES[units[last][-1]] for last in lasts])
        days = np.stack(diagnostic.then.evaluate({"value": Steps(list(days)), **fields}))
    outer = spans(diagnostic.windows[0], [DATES[units[last][-1]] for last in lasts])
    (operator,) = diagnostic.operators
    return np.stack([in_parts(operator, days[steps]) for steps in outer.values()])


def write(path, values, units, times=TIMES):
    place = {"lat": ("lat", [0.0], {"units": "degrees_north"}),
             "lon": ("lon", np.arange(POINTS) * 1.0, {"units": "degrees_east"})}  # fmt: skip
    time = ("time", times, {"units": CLOCK.units, "calendar": CLOCK.calendar, "standard_name": "time"})
    field = (("time", "lat", "lon"), values.reshape(-1, 1, POINTS), {"units": units})
    xr.Dataset({"v": field}, {"time": time, **place}).to_netcdf(path, engine="scipy")


def cdo(command, target):
    done = subprocess.run(["cdo", "-s", *command.split(), target], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    with xr.open_dataset(target, engine="scipy", decode_times=False) as result:
        name = next(name for name in result.data_vars if "bnds" not in name)
        return result[name].values.reshape(-1, POINTS)


@CDO
@pytest.mark.parametrize(
    ("name", "day"),
    [
        ("eca_su", "max"), ("eca_fd", "min"), ("eca_tr", "min"), ("eca_id", "max"), ("etccdi_su", "max"),
        ("etccdi_fd", "min"), ("etccdi_tr", "min"), ("etccdi_id", "max"), ("eca_su,20", "max"),
        ("eca_csu", "max"), ("eca_cfd", "min"), ("eca_csu,18", "max"), ("eca_tr,15", "min"),
    ],
)  # fmt: skip
def test_temperature_indices_are_cdos(name, day, tmp_path):
    values = temperatures()
    write(tmp_path / "in.nc", values, "K")
    theirs = cdo(f"{name} -day{day} {tmp_path / 'in.nc'}", tmp_path / "out.nc")
    assert np.ptp(theirs) > 0
    np.testing.assert_array_equal(evaluate(name, values), theirs)


@CDO
@pytest.mark.parametrize(
    ("name", "input_of"),
    [
        ("eca_cdd", ""), ("eca_cwd", ""), ("eca_r1mm", ""), ("eca_r10mm", ""), ("eca_r20mm", ""), ("eca_rx1day", ""),
        ("eca_rx5day", "-runsum,5"), ("eca_sdii", ""), ("eca_pd,5", ""), ("etccdi_rx1day", ""), ("eca_cdd,2", ""),
    ],
)  # fmt: skip
def test_rain_indices_are_cdos(name, input_of, tmp_path):
    values = rain_rates()
    write(tmp_path / "in.nc", values, "kg m-2 s-1")
    daily = f"{input_of} -setattribute,v@units=mm -mulc,86400 -daymean {tmp_path / 'in.nc'}"
    theirs = cdo(f"{name} {daily}", tmp_path / "out.nc")
    assert theirs.max() > 0
    np.testing.assert_allclose(evaluate(name, values), theirs, rtol=1e-6)


@CDO
def test_the_growing_season_is_cdos_of_each_whole_year(tmp_path):
    values = 566 - temperatures()  # so that the summers are warm
    write(tmp_path / "in.nc", values, "K")
    write(tmp_path / "land.nc", np.ones((1, POINTS)), "1", [0.0])
    theirs = cdo(f"eca_gsl -daymean {tmp_path / 'in.nc'} {tmp_path / 'land.nc'}", tmp_path / "out.nc")
    ours = evaluate("eca_gsl", values)
    assert len(ours) == len(theirs) == 3  # the first and the last one are cut by the run
    assert np.ptp(theirs[1]) > 0
    np.testing.assert_array_equal(ours[1], theirs[1])


@CDO
@pytest.mark.parametrize("how", ["mean", "avg", "sum", "min", "max"])
def test_running_days_over_all_years_are_cdos(how, tmp_path):
    values = temperatures().astype("f8")
    values[STEPS_A_DAY * 100 : STEPS_A_DAY * 103, 1] = np.nan
    if how in ("mean", "sum"):  # of runs with all their days
        values[:, 1] = 280
    write(tmp_path / "in.nc", values, "K")
    theirs = cdo(f"ydrun{how},5 -day{how} {tmp_path / 'in.nc'}", tmp_path / "out.nc")
    (diagnostic,) = parse_diagnostics({"x": [f"ydrun{how},5"]}, []).values()
    lasts = [CLOCK.date(float(day)) for day in range(4, DAYS)]
    keys = list(dict.fromkeys(diagnostic.windows[0].key(date) for date in lasts))
    ours = dict(zip(keys, evaluate(f"ydrun{how},5", values), strict=True))
    np.testing.assert_allclose(np.stack([ours[key] for key in sorted(keys)]), theirs, rtol=1e-6)


def test_the_middle_of_days_is_found_over_the_end_of_february():
    window = parse_window({"clim_dayofyear": {"middle_of": 5}})
    for year, middle in ((2000, (2, 29)), (2001, (2, 28))):
        assert window.key(cftime.datetime(year, 3, 2)) == middle
    begin, end = window.bounds((2, 28), cftime.datetime(2001, 3, 2, 12), cftime.datetime(2003, 3, 2, 12))
    assert (begin, end) == (cftime.datetime(2001, 2, 28), cftime.datetime(2003, 3, 1))


@CDO
@pytest.mark.parametrize("name", ["eca_r75p", "eca_r95p", "eca_r95ptot", "eca_r99ptot"])
def test_shares_of_very_wet_days_are_cdos_of_wet_days(name, tmp_path):
    values = rain_rates()[STEPS_A_DAY * 88 : STEPS_A_DAY * (88 + 365)] * 86400
    whole = np.full((len(TIMES), POINTS), np.nan)
    whole[STEPS_A_DAY * 88 : STEPS_A_DAY * (88 + 365)] = values
    write(tmp_path / "in.nc", daily_means(values), "mm", np.arange(88, 88 + 365.0))
    write(tmp_path / "limits.nc", np.tile(FIELDS["mm"], (365, 1)), "mm", np.arange(88, 88 + 365.0))
    wet = f"-setrtomiss,-1,0.999999 {tmp_path / 'in.nc'}"
    theirs = cdo(f"{name} {wet} {tmp_path / 'limits.nc'}", tmp_path / "out.nc")
    ours = evaluate({name: {"thresholds": "mm.nc", "units": "mm/day"}}, whole)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def daily_means(values):
    return values.reshape(-1, STEPS_A_DAY, POINTS).mean(axis=1)


@CDO
@pytest.mark.parametrize("name", ["strwin", "strwin,12", "strbre", "strgal", "hurr"])
def test_days_of_strong_wind_are_cdos(name, tmp_path):
    values = np.round(np.random.default_rng(6).exponential(9, (len(TIMES), POINTS)) * 2) / 2
    write(tmp_path / "in.nc", values, "m s-1")
    theirs = cdo(f"{name} -daymax {tmp_path / 'in.nc'}", tmp_path / "out.nc")
    np.testing.assert_array_equal(evaluate(name, values), theirs)


def daily(values):
    return values.reshape(DAYS, STEPS_A_DAY, POINTS)


@pytest.mark.parametrize(
    ("name", "day", "end"), [("TXx", "max", "max"), ("TNx", "min", "max"), ("TXn", "max", "min"), ("TNn", "min", "min")]
)
def test_extremes_are_those_of_the_days(name, day, end):
    values = temperatures()
    days = getattr(daily(values), day)(axis=1)
    years = np.split(days, [88, 88 + 365])  # 1999 and 2000
    np.testing.assert_array_equal(evaluate(name, values), [getattr(year, end)(axis=0) for year in years])


def test_the_temperature_range_is_that_of_each_day():
    days = daily(temperatures().astype("f8"))
    ours = evaluate({"DTR": {"window": "run"}}, temperatures())
    np.testing.assert_allclose(ours, [np.ptp(days, axis=1).mean(axis=0)], rtol=1e-6)


def test_days_of_rain_need_a_threshold():
    with pytest.raises(ConfigError, match="say the threshold in mm: Rnnmm"):
        meaning("Rnnmm")


@pytest.mark.parametrize(("hemisphere", "own"), [("north", "year"), ("south", {"year": "jul"})])
def test_a_growing_season_is_of_the_years_of_its_hemisphere(hemisphere, own):
    for window in ("month", "run", "year", {"year": "jul"}, {"year": "oct"}, {"years": 2}, {"running": {"years": 2}}):
        if window == own:
            closed = {"year": {"start": own["year"] if isinstance(own, dict) else "jan", "closed": "right"}}
            for item in (own, closed):
                assert meaning({"GSL": {"hemisphere": hemisphere, "window": item}}).window == item
        else:
            with pytest.raises(ConfigError, match="a growing season is of years from"):
                meaning({"GSL": {"hemisphere": hemisphere, "window": window}})


def test_total_rain_is_that_of_wet_days():
    days = daily(rain_rates()).mean(axis=1) * 86400
    wet = np.where(days >= 1, days, 0.0)
    ours = evaluate({"PRCPTOT": {"window": "run"}}, rain_rates())
    np.testing.assert_allclose(ours, [wet.sum(axis=0)], rtol=1e-12)


@pytest.mark.parametrize(("name", "units"), [("Rx5day", "mm"), ("CDD", "m"), ("SDII", "mm/day"), ("Rx5day", "mm/day")])
def test_rain_may_come_in_other_units(name, units):
    rates = rain_rates()
    step_s = 86400 / STEPS_A_DAY
    factors = {"mm": step_s, "m": step_s / 1000, "mm/day": 86400.0}
    same = evaluate({name: {"units": units}}, rates * factors[units])
    np.testing.assert_allclose(same, evaluate(name, rates), rtol=1e-9)


def test_temperatures_may_come_in_degrees_celsius():
    values = temperatures().astype("f8")
    for name in ("SU", "FD", "TR", "ID"):
        ours = evaluate({name: {"units": "degC"}}, values - 273.15)
        np.testing.assert_array_equal(ours, evaluate(name, values))


@pytest.mark.parametrize("index", INDICES.values(), ids=lambda index: index.name)
def test_an_index_says_which_units_it_takes_the_variable_to_have(index):
    index = index if index.limit is None or index.threshold is not None else replace(index, threshold=25.0)
    more = {"thresholds": "mm.nc" if index.day == "rain" else "K.nc"} if index.needs_file else {}
    assert index_meaning(index, **more).units == (DEFAULT[index.day] if index.takes_units else None)
    assert index_meaning(index, units={"rain": "mm"}.get(index.day, "degC"), **more).units is None
    with pytest.raises(ConfigError, match="can't be converted"):
        index_meaning(index, units="furlongs", **more)


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ("K", "kelvin", True), ("K", "degC", False), ("kg m-2 s-1", "kg/m2/s", True), ("mm", "mm/day", False),
        ("kg m-2 s-1", "mm/day", False), ("mm", "kg m-2", True), ("furlongs", "K", False), ("K", "furlongs", False),
    ],
)  # fmt: skip
def test_units_are_the_same_however_they_are_written(left, right, same):
    assert same_units(left, right) is same


@pytest.mark.parametrize(
    ("operator", "units", "wrong"),
    [
        ("SU", "K", False), ("SU", "degC", True), ({"SU": {"units": "degC"}}, "degC", False), ("TXx", "degC", False),
        ("Rx5day", "mm/day", True), ("Rx5day", None, False),
    ],
)  # fmt: skip
def test_a_variable_in_other_units_is_refused(operator, units, wrong):
    (diagnostic,) = parse_diagnostics({"v": [operator]}, []).values()
    told = {"v/_ARRAY_DIMENSIONS": ["x"]} | ({"v/units": units} if units else {})
    attributes = StreamAttributes(told)
    blocks = {"v": Block("v", "float", "GlobalArray", (5,), (0,), (5,))}
    if wrong:
        with pytest.raises(ConfigError, match="is expected: tell the index"):
            field_of(diagnostic, blocks, attributes, {}, Clock("days since 2000-01-01"))
    else:
        assert field_of(diagnostic, blocks, attributes, {}, Clock("days since 2000-01-01")).name == "v"


@pytest.mark.parametrize("name", NAMES.values(), ids=lambda name: name.name)
def test_every_name_means_a_diagnostic(name):
    item = yaml.safe_load(name.example)
    operators = [item] if meaning(item).operator else [item, "mean"]
    (diagnostic,) = parse_diagnostics({"tas": operators}, ["month"]).values()
    assert len(diagnostic.operators) >= 1
    assert len(diagnostic.windows) == 1


def longest(met):
    """Longest run of days along the first axis."""
    best = run = np.zeros(met.shape[1:], int)
    for day in met:
        run = np.where(day, run + 1, 0)
        best = np.maximum(best, run)
    return best


def in_spells(met, at_least=6):
    """Days of runs of at least so many, along the first axis."""
    found, run = np.zeros(met.shape[1:], int), np.zeros(met.shape[1:], int)
    for day in (*met, np.zeros(met.shape[1:], bool)):
        found += np.where(~day & (run >= at_least), run, 0)
        run = np.where(day, run + 1, 0)
    return found


def of_wet(rain, limit):
    wet = np.where(rain >= 1, rain, 0)
    return 100 * np.nansum(np.where(wet > limit, wet, 0), axis=0) / np.nansum(wet, axis=0)


def share(values, met):
    return (
        100
        * np.where(np.isnan(values), np.nan, met).sum(axis=0, where=~np.isnan(values))
        / np.sum(values == values, axis=0)
    )


def season(days, half=181):
    """Growing season of a year, point by point, as it is defined."""
    lengths = []
    for own in days.T:
        warm = [at for at in range(half - 5) if (own[at : at + 6] > 278.15).all()]
        cold = [at for at in range(half, len(own) - 5) if (own[at : at + 6] < 278.15).all()]
        lengths.append((cold[0] if cold else len(own)) - warm[0] if warm else 0)
    return np.array(lengths)


def five_days(rain):
    return np.stack([rain[at : at + 5].sum(axis=0) for at in range(len(rain) - 4)])


def largest(days):
    return np.nanmax(days, axis=0)


def smallest(days):
    return np.nanmin(days, axis=0)


DAYS_OF = ("TX", "TN", "TG")
LAND, SEA, DRY, PARTLY, EVEN = range(5)
"""Points of a daily field: ordinary, without any value, below every threshold, with gaps, and at 1 mm each day."""
DEFINITIONS = {
    "TXx": (largest, None), "TNx": (largest, None), "TXn": (smallest, None), "TNn": (smallest, None),
    "SU": (lambda x: (x > 298.15).sum(0), "eca_su"), "FD": (lambda x: (x < 273.15).sum(0), "eca_fd"),
    "TR": (lambda x: (x > 293.15).sum(0), "eca_tr"), "ID": (lambda x: (x < 273.15).sum(0), "eca_id"),
    "CSU": (lambda x: longest(x > 298.15), "eca_csu"), "CFD": (lambda x: longest(x < 273.15), "eca_cfd"),
    "DTR": (lambda x: 0 * np.nanmean(x, axis=0), None), "Rnnmm": (lambda x: (x >= 25).sum(0), "eca_pd,25"),
    "Rx1day": (largest, "eca_rx1day"), "Rx5day": (lambda x: largest(five_days(x)), None),
    "R1mm": (lambda x: (x >= 1).sum(0), "eca_r1mm"), "R10mm": (lambda x: (x >= 10).sum(0), "eca_r10mm"),
    "R20mm": (lambda x: (x >= 20).sum(0), "eca_r20mm"), "CDD": (lambda x: longest(x < 1), "eca_cdd"),
    "CWD": (lambda x: longest(x >= 1), "eca_cwd"),
    "PRCPTOT": (lambda x: np.nansum(np.where(x >= 1, x, 0), axis=0), None),
    "SDII": (lambda x: np.nanmean(np.where(x >= 1, x, np.nan), axis=0), "eca_sdii"),
    "HD": (lambda x: np.nansum(np.maximum(290.15 - x, 0), axis=0), "eca_hd"),
    "GD": (lambda x: np.nansum(np.maximum(x - 277.15, 0), axis=0), None),
    "CD": (lambda x: np.nansum(np.maximum(x - 291.15, 0), axis=0), None),
    "GSL": (lambda x: season(x), None),
    **{f"{name}90p": (lambda x: share(x, x > FIELDS["K"]), f"eca_{name.lower()}90p K.nc") for name in DAYS_OF},
    **{f"{name}10p": (lambda x: share(x, x < FIELDS["K"]), f"eca_{name.lower()}10p K.nc") for name in DAYS_OF},
    "WSDI": (lambda x: in_spells(x > FIELDS["K"]), "etccdi_wsdi K.nc"),
    "CSDI": (lambda x: in_spells(x < FIELDS["K"]), "etccdi_csdi K.nc"),
    "HWFI": (lambda x: in_spells(x > FIELDS["K"]), "eca_hwfi K.nc"),
    "CWFI": (lambda x: in_spells(x < FIELDS["K"]), "eca_cwfi K.nc"),
    "HWDI": (lambda x: in_spells(x > FIELDS["K"] + 5), "eca_hwdi K.nc"),
    "CWDI": (lambda x: in_spells(x < FIELDS["K"] - 5), "eca_cwdi K.nc"),
    **{f"R{q}pTOT": (lambda x: np.nansum(np.where(x > FIELDS["mm"], x, 0), axis=0), None) for q in (95, 99)},
    **{f"R{q}pFRAC": (lambda x: of_wet(x, FIELDS["mm"]), None) for q in (75, 90, 95, 99)},
    **{f"R{q}p": (lambda x: share(np.where(x >= 1, x, np.nan), x > FIELDS["mm"]), None) for q in (75, 90, 95, 99)},
}  # fmt: skip
"""What the ETCCDI defines, of one year; and the name in CDO, where that has the same input."""


@pytest.mark.filterwarnings("ignore:All-NaN", "ignore:Mean of empty slice", "ignore:invalid value")
def test_every_index_is_missing_over_the_sea_and_counts_what_there_is_elsewhere(tmp_path):
    assert {*INDICES} == {*DEFINITIONS}
    random = np.random.default_rng(8)
    warm = 283 + 15 * np.sin(2 * np.pi * np.arange(DAYS) / 365)[:, None] + random.normal(0, 5, (DAYS, POINTS))
    wet = np.where(random.random((DAYS, POINTS)) < 0.4, random.exponential(12, (DAYS, POINTS)), 0.0)
    warm[:, DRY], wet[:, DRY], wet[:, EVEN] = 280.0, 0.5, 1.0
    for field in (warm, wet):
        field[:, SEA], field[100:160, PARTLY] = np.nan, np.nan
    year = slice(88, 88 + 365)  # 2000
    for name, (define, theirs) in DEFINITIONS.items():
        field, units = (warm, "K") if INDICES[name].day != "rain" else (wet, "mm/day")
        more = {"threshold": 25} if name == "Rnnmm" else {}
        if INDICES[name].needs_file:
            more["thresholds"] = "mm.nc" if INDICES[name].day == "rain" else "K.nc"
        ours = evaluate({name: {"units": units, **more}}, np.repeat(field, STEPS_A_DAY, axis=0))
        own = field[year] if name != "Rx5day" else field[year.start - 4 : year.stop]
        expected = np.where(np.isnan(field[year]).all(axis=0), np.nan, define(own))
        np.testing.assert_allclose(ours[1], expected, rtol=1e-9, err_msg=name)
        assert np.isnan(ours[1][SEA]), name
        assert np.isnan(ours[1][DRY]) == (name == "SDII" or re.fullmatch(r"R\d\dp(FRAC)?", name) is not None), name
        if theirs and shutil.which("cdo"):
            write(tmp_path / "in.nc", field[year], "K" if units == "K" else "mm", np.arange(88, 88 + 365.0))
            operator, *further = theirs.split()
            found = cdo(f"{operator} {tmp_path / 'in.nc'} {' '.join(further)}", tmp_path / "out.nc")[0]
            np.testing.assert_allclose(ours[1], found, rtol=1e-6, err_msg=theirs)


def test_an_index_may_need_a_number_of_days():
    values = np.full((len(TIMES), POINTS), 300.0)
    values[STEPS_A_DAY * 100 : STEPS_A_DAY * 110, 1] = np.nan
    (first, whole, _) = evaluate({"SU": {"min_count": 360}}, values)
    assert np.isnan(first).all()  # 88 days of 1999
    assert whole[0] == 365
    assert np.isnan(whole[1])


@CDO
@pytest.mark.parametrize("name", ["wsdi", "cwd"])
def test_names_of_runs_that_cdo_lets_go_on_into_the_next_year_are_refused(name, tmp_path):
    values = np.zeros((400, POINTS))
    values[362:368] = 300.0  # three days of either year
    write(tmp_path / "in.nc", values, "mm", np.arange(88.0, 488.0))
    theirs = cdo(f"etccdi_{name} {tmp_path / 'in.nc'} {'K.nc' if name == 'wsdi' else ''}", tmp_path / "out.nc")
    assert (theirs == [[0], [6]]).all()
    with pytest.raises(ConfigError, match="end with the year; CDO's continue into the next one"):
        parse_diagnostics({"v": [f"etccdi_{name}"]}, ["run"])
