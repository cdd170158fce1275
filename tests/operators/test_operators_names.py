import re
import shutil
import subprocess

import pytest
import xarray as xr
import yaml

from bbflow.errors import ConfigError
from bbflow.operators.catalogue import KINDS
from bbflow.operators.configured import parse_diagnostics
from bbflow.operators.names.cdo import COUNTED, STATISTICS, WINDOWS
from bbflow.operators.names.known import NAMES, ORIGINS, expand, is_name, meaning
from bbflow.operators.windows import parse_window

OWN_KINDS = {"mean": None, "max": None, "min": None, "std": None, "sum": None, "cumsum": None}


@pytest.mark.parametrize("prefix", WINDOWS)
@pytest.mark.parametrize("suffix", STATISTICS)
def test_cdo_names_a_window_and_a_statistic(prefix, suffix):
    means = meaning(prefix + suffix)
    assert (means.operator, means.window) == (STATISTICS[suffix][1], WINDOWS[prefix][1])
    assert parse_window(means.window).name
    assert means.parts == {"windows": [means.window]}


@pytest.mark.parametrize(
    ("item", "operator", "window"),
    [
        ("timmean", "mean", "run"),
        ("monmean", "mean", "month"),
        ("ymonmean", "mean", "clim_month"),
        ("ydaymean", "mean", "clim_dayofyear"),
        ("yearmax", "max", "year"),
        ("seasstd1", {"std": {"ddof": 1}}, "season"),
        ("dayrange", "range", "day"),
        ("hourmin", "min", "hour"),
        ("monavg", {"mean": {"skipna": False}}, "month"),
        ("timpctl,90", {"percentiles": {"q": [90]}}, "run"),
        ({"timpctl": 90}, {"percentiles": {"q": [90]}}, "run"),
        ({"ymonpctl": 2.5}, {"percentiles": {"q": [2.5]}}, "clim_month"),
        ("runmean,5", "mean", {"running": {"steps": 5}}),
        ({"runmean": 5}, "mean", {"running": {"steps": 5}}),
        ("timselsum, 10", "sum", {"steps": 10}),
        ("timselpctl,90,10", {"percentiles": {"q": [90]}}, {"steps": 10}),
        ({"runpctl": [90, 5]}, {"percentiles": {"q": [90]}}, {"running": {"steps": 5}}),
        ("timcor,psl", {"correlation": {"with": "psl"}}, "run"),
        ({"monmean": {"min_count": 20}}, {"mean": {"min_count": 20}}, "month"),
        ({"monavg": {"name": "all"}}, {"mean": {"skipna": False, "name": "all"}}, "month"),
        ({"runmean": {"steps": 5, "min_count": 3}}, {"mean": {"min_count": 3}}, {"running": {"steps": 5}}),
        ({"quantile": 0.9}, {"percentiles": {"q": [90]}}, None),
        ({"quantile": {"q": [0.07, 0.1]}}, {"percentiles": {"q": [7, 10]}}, None),
        ("idxmax", "argmax", None),
    ],
)
def test_a_name_means_an_operator_and_its_window(item, operator, window):
    means = meaning(item)
    assert (means.operator, means.window) == (operator, window)


@pytest.mark.parametrize(
    ("item", "parts"),
    [
        ("fldmean", {"space": "fldmean"}),
        ("sellonlatbox,350,20,-30,30", {"space": "sellonlatbox,350,20,-30,30"}),
        ({"sellevel": [85000, 50000]}, {"space": "sellevel,85000,50000"}),
        ({"coarsen": {"lat": 2}}, {"space": {"coarsen": {"lat": 2}}}),
        ("timcumsum", {"transforms": ["cumsum"]}),
        ("cumsum", {"transforms": ["cumsum"]}),
        ({"resample": "MS"}, {"windows": [{"resample": "MS"}]}),
        ({"groupby": "time.month"}, {"windows": [{"groupby": "time.month"}]}),
        ({"rolling": {"time": 5}}, {"windows": [{"running": 5}]}),
        ("gec,-1.5", {"then": "value >= (-1.5)"}),
        ({"addc": "1e3"}, {"then": "value + (1000.0)"}),
    ],
)  # fmt: skip
def test_a_name_without_an_operator_means_a_part_of_the_diagnostic(item, parts):
    means = meaning(item)
    assert (means.operator, means.parts) == (None, parts)
    assert all(parse_window(window) for window in parts.get("windows", []))


@pytest.mark.parametrize("name", NAMES.values(), ids=lambda name: name.name)
def test_every_name_has_an_example(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if "thresholds.nc" in name.example:
        xr.Dataset({"limit": ("x", [1.0])}).to_netcdf("thresholds.nc", engine="scipy")
    item = yaml.safe_load(name.example)
    assert is_name(item, {})
    assert meaning(item) == meaning(item)
    assert name.summary


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ("monmaen", "unknown name 'monmaen'; did you mean 'monmean'"),
        ("ymonmena", "did you mean 'ymonmean'"),
        ("etccdi_r1mmm", "did you mean 'etccdi_r1mm'"),
        ("timpctl", "takes percentage, but got 0 values: write it like timpctl,90, with quotes around it in a list"),
        ("monmean,5", "takes nothing, but got 1"),
        ("timselmean,10,2", "takes steps, but got 2"),
        ("timpctl,ninety", "'ninety' is not a finite number"),
        ("runmean,0", "whole number from 1"),
        ("runmean,2.5", "whole number from 1"),
        ({"quantile": 90}, "from 0 to 1"),
        ("TXx,25", "it has no threshold"),
        (
            "etccdi_tx90p,5,1961,1990",
            "write etccdi_tx90p: {base: [1961, 1990], days: 5, years: [FIRST, LAST]}, with the run's years",
        ),
        ("etccdi_r95p,5,1971,2000,m", "write etccdi_r95p: {base: [1971, 2000], years: [FIRST, LAST]}"),
        ("eca_tx90p,5,1961,1990", "takes nothing, but got 3 values: write it like eca_tx90p,thresholds.nc"),
        ({"fldmean": {"min_count": 3}}, "nothing takes min_count"),
        ({"runmean": {"min_count": 3}}, "takes steps, but got 0"),
        ({"SU": {"tthreshold": 3}}, "did you mean 'threshold'"),
        ({"SU": {"units": "F"}}, "units 'F' can't be converted"),
        ({"CDD": {"units": "mm/dy"}}, "did you mean 'mm/d"),
    ],
)
def test_a_wrong_name_is_named(item, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        meaning(item)


def test_our_own_operators_come_first():
    assert not is_name("cumsum", OWN_KINDS)
    assert not is_name({"std": {"ddof": 1}}, {})
    assert is_name("cumsum", KINDS)


def test_each_window_makes_a_diagnostic_and_parts_hold_for_all():
    chosen = {"operators": ["fldmean", "monmean", "yearmax", "monmax", "mean", "sum"], "windows": ["day"], "of": "u"}
    shared = {"of": "u", "space": "fldmean"}
    assert expand(chosen, OWN_KINDS) == [
        shared | {"windows": ["month"], "operators": ["mean", "max"]},
        shared | {"windows": ["year"], "operators": ["max"]},
        shared | {"windows": ["day"], "operators": ["mean", "sum"]},
    ]


def test_windows_without_an_operator_replace_the_given_ones_for_operators_that_have_none():
    chosen = {"operators": [{"resample": "MS"}, {"groupby": "time.hour"}, "max", "timmean"], "windows": ["day"]}
    assert expand(chosen, OWN_KINDS) == [
        {"windows": [{"resample": "MS"}, {"groupby": "time.hour"}], "operators": ["max"]},
        {"windows": ["run"], "operators": ["mean"]},
    ]


def test_transforms_follow_those_that_are_given():
    chosen = {"operators": ["cumsum", "last"], "transforms": ["deaccumulate"]}
    assert expand(chosen, {}) == [{"transforms": ["deaccumulate", "cumsum"], "operators": ["last"]}]


def test_what_others_wrote_stays_as_it_is():
    chosen = {"operators": ["mean", {"std": {"ddof": 1}}, {"filter": {"above": 3}}, "nonsense"]}
    assert expand(chosen, KINDS) == [chosen]
    assert expand({"operators": "fldmean"}, KINDS) == [{"space": "fldmean", "operators": []}]


@pytest.mark.parametrize(
    "chosen",
    [
        {"operators": ["fldmean", "zonmean"]},
        {"operators": ["fldmean", "mean"], "space": "zonmean"},
        {"operators": ["TXx"], "each": {"day": "min"}},
        {"operators": ["mulc,2", "addc,3"]},
    ],
)
def test_a_part_is_said_once(chosen):
    with pytest.raises(ConfigError, match="take one out") as told:
        expand(chosen, {})
    assert ("list under 'space'" in str(told.value)) == ("says space" in str(told.value))


@pytest.mark.skipif(shutil.which("cdo") is None, reason="needs the program cdo (Debian's package of that name)")
def test_every_statistic_of_cdo_over_time_has_a_name():
    listed = subprocess.run(["cdo", "--operators"], capture_output=True, text=True, timeout=60).stdout
    theirs = {line.split()[0] for line in listed.splitlines() if line.strip()}
    prefixes, suffixes = "|".join([*WINDOWS, *COUNTED]), "|".join([*STATISTICS, "pctl"])
    statistics = {name for name in theirs if re.fullmatch(f"({prefixes})({suffixes})", name)}
    assert len(statistics) > 130
    assert statistics <= set(ORIGINS["CDO"])
    invented = set(ORIGINS["CDO"]) - theirs
    over = "dhour|yhour|yday|ymon|yseas|run|timsel|zon|mer|vert|gridbox"
    assert all(re.fullmatch(f"({over})(count|range|pctl)|vertsum", name) for name in invented), invented
    indices = {name for name in ORIGINS["ETCCDI"] if "_" in name}
    assert indices <= theirs


@pytest.mark.parametrize(
    ("content", "hint"),
    [
        (["ml2hl,100"], "'ml2hl' isn't an operator: space: {levels: {to"),
        (["intlevelx"], "height: zg"),
        (["ml2plx"], "space: {levels: {to: [85000, 50000], pressure: {a: hyam, b: hybm, surface: ps}, above: linear"),
        ({"operators": ["mean"], "space": "ap2pl"}, "space: {levels: {to: [85000, 50000], pressure: {field: pfull"),
        ({"operators": ["mean"], "space": ["fldmean", "ml2hl,100"]}, "'ml2hl' isn't a space: space: {levels: {to"),
        ({"operators": ["mean"], "space": "zonskew"}, "no third and fourth moments over space"),
        (["dtr"], "DTR"),
        (["remapcon,r360x180"], "space: {remapcon: r360x180}"),
        (["mean", {"mean": {"min_count": 3}}], "is given twice, by 'mean' and {'mean': {'min_count': 3}}"),
        ({"operators": ["mean"], "area_min": 0.5}, "belongs into 'space', inside a remap"),
        ({"operators": ["mean"], "mask": "land > 0"}, "belongs into 'space', as space: {mask"),
    ],
)
def test_what_is_looked_for_in_the_wrong_place_is_told_its_own(content, hint):
    with pytest.raises(ConfigError) as raised:
        parse_diagnostics({"x": content}, ["run"])
    assert hint in str(raised.value)
