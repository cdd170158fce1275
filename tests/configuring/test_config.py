import re
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import yaml

from bbflow.configuring.config import load_config, parse_config
from bbflow.configuring.settings import NodesConfig, RawConfig, ResultsConfig, WorkersConfig
from bbflow.configuring.step_time import TimeConfig
from bbflow.ensemble.ensemble_config import parse_ensemble
from bbflow.errors import ConfigError
from bbflow.staging.staging_plan import read_plan

ROOT = Path(__file__).parents[2]
SMALL = {"stream": "climate", "operators": {"tas": ["mean"]}}


def test_a_stream_and_its_operators_are_enough():
    config = parse_config(SMALL)
    assert config.stream == "climate"
    tas = config.diagnostics["tas"]
    assert (tas.of.variables, tas.space, tas.each) == (("tas",), None, None)
    assert [operator.name for operator in tas.operators] == ["mean"]
    assert [window.name for window in tas.windows] == ["month", "run"]
    assert not config.raw.wanted
    assert (config.nodes, config.workers, config.time) == (NodesConfig(), WorkersConfig(), TimeConfig())


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"operatorz": {}}, "unknown key 'operatorz'; did you mean 'operators'?"),
        ({"operators": {"tas": ["maen"]}}, "operators of tas: unknown operator 'maen'; did you mean 'mean'?"),
        ({"operators": {"tas": [{"std": {"dof": 1}}]}}, "unknown parameter 'dof'; did you mean 'ddof'?"),
        ({"windows": ["mnth"]}, "did you mean 'month'?"),
        ({"operators": {"tas": {"operators": ["mean"], "windows": ["ruun"]}}}, "did you mean 'run'?"),
        ({"operators": {"tas": {"operator": ["mean"]}}}, "unknown key 'operator'; did you mean 'operators'?"),
        ({"operators": {"tas": []}}, "no operators are given"),
        ({"operators": {"tas": ["fldstd"]}}, "add an operator over time"),
        ({"operators": ["tas"]}, "must be a map from variable"),
        ({"operators": {}}, "the key 'operators' is missing"),
        ({"stream": ""}, "the key 'stream' is missing"),
        ({"select": {"stream": "a"}}, "a rule has neither 'io' nor 'file'"),
        ({"select": [{"io": "a*"}, {"files": "b"}]}, "select: unknown key 'files'; did you mean 'file'?"),
        ({"select": {"io": "a[^b]"}}, "select: io: 'a[^b]' must be a name in which * stands for any signs"),
        ({"select": {"file": "a[[:digit:]]"}}, "select: file: 'a[[:digit:]]' must be a name"),
        ({"select": {"io": "a", "parameters": ["b"]}}, "must be a map of the engine's parameters"),
        ({"nodes": {"capacityy": "1GB"}}, "nodes: unknown key 'capacityy'; did you mean 'capacity'?"),
        ({"nodes": {"capacity": "much"}}, "nodes: capacity: 'much' is not a size"),
        ({"nodes": {"count": 0}}, "nodes: count: 0 is not a whole number from 1"),
        ({"operators": {"tas": ["mean", None]}}, "an operator is empty"),
        ({"operators": {"pr": [{"SU": {"units": [1]}}]}}, "units [1] can't be converted"),
        ({"netcdf": []}, "netcdf: [] is neither true nor false"),
        ({"output": False}, "output: False must be one text"),
        ({"workers": {"threads": 10**400}}, "workers: threads: 1000"),
        ({"workers": {"threads": True}}, "workers: threads: True is not a whole number from 1"),
        ({"workers": {"threads": 1.5}}, "workers: threads: 1.5 is not a whole number from 1"),
        ({"workers": {"batch_steps": "few"}}, "workers: batch_steps: 'few'"),
        ({"workers": 4}, "workers must be a map with the keys batch_steps, dashboard, processes, threads"),
        ({"raw": "al"}, "did you mean 'all'?"),
        ({"raw": {"compression": "zst"}}, "did you mean 'zstd'?"),
        ({"raw": {"every": 0}}, "raw: every: 0"),
        ({"time": {"late": "skp"}}, "time: late: unknown choice 'skp'; did you mean 'skip'?"),
        ({"operators": {"wind": {"of": "sqrt(u", "operators": ["mean"]}}}, "operators of wind: "),
        ({"operators": {"tas": {"each": {"day": "max"}, "operators": [{"filter": {"above": 1}}]}}}, "single steps"),
        (
            {"operators": {"tas": {"each": {"day": "max"}, "operators": [{"covariance": {"with": "psl"}}]}}},
            "operators of tas: covariance takes 'psl' of the same steps, but what 'each' makes are steps of one field",
        ),
        ({"operators": {"t": {"of": "tas", "each": "day", "operators": ["max"]}}}, "such as {day: max}"),
        ({"operators": {"t": {"of": "tas", "each": {"clim_month": "max"}, "operators": ["max"]}}}, "is a climatology"),
        ({"operators": {"t": {"of": "tas", "then": "pr > 1", "operators": ["max"]}}}, "then: 'pr' is not known here"),
        ({"operators": {"tas": ["mean", "monmean"]}}, "is given twice"),
        ({"nodes": {"capacity": 1}}, "capacity: 1 is less than a page of 4096 bytes"),
        (
            {"operators": {"tas": ["mean", {"filter": {"above": 3, "name": "month_mean"}}]}},
            "tas_month_mean is given twice",
        ),
        ({"operators": {"time": [{"mean": {"name": "bnds"}}]}}, "time_month_bnds is given twice"),
        ({"operators": {"steps": {"of": "a", "operators": [{"filter": {"above": 1, "name": "run"}}]}}}, "steps_run is"),
        ({"operators": {"a": ["median"], "a_x2F_b": ["mean"], "a/b": ["mean"]}}, "a/b_month_mean is given twice"),
        (
            {
                "operators": {
                    "tas": ["mean"],
                    "pr": {"operators": ["mean"], "windows": [{"month": {"closed": "right"}}]},
                }
            },
            "the window month is cut differently elsewhere",
        ),
        ({"time": {"calendarr": "noleap"}}, "time: unknown key 'calendarr'; did you mean 'calendar'?"),
        ({"open_timeout_s": "soon"}, "open_timeout_s: 'soon' must be a number of seconds, 0 or more"),
        ({"output": ["a", "b"]}, "output: ['a', 'b'] must be one text"),
        ({"time": {"units": {"days": 1}}}, "time: units: {'days': 1} is not a text"),
        ({"open_timeout_s": float("nan")}, "open_timeout_s: nan must be a number of seconds"),
        ({"safe_every_s": -5}, "safe_every_s: -5 must be a number of seconds"),
        ({"nodes": {"back_s": -1}}, "nodes: back_s: -1 must be a number of seconds"),
        ({"time": {"interval": 0}}, "time: interval: 0 must be a number above 0"),
        ({"time": {"interval": float("nan")}}, "time: interval: nan is not a finite number"),
        ({"time": {"calendar": "gregorain"}}, "time: unknown calendar 'gregorain'; did you mean 'gregorian'?"),
        ({"time": {"units": "days"}}, "time: time units 'days' name no reference date"),
        (
            {"time": {"units": "days since 2001-02-29", "calendar": "noleap"}},
            "time: time units 'days since 2001-02-29' can't be read in the calendar 'noleap'",
        ),
        ({"time": {"units": "years since 2000-01-01"}}, "can't be read in the calendar 'standard'"),
    ],
)
def test_what_is_wrong_is_named_with_what_would_be_right(change, says):
    with pytest.raises(ConfigError, match=re.escape(says)):
        parse_config(SMALL | change)


@pytest.mark.parametrize("content", [None, [], "text", 5])
def test_a_configuration_that_is_no_map_is_refused(content):
    with pytest.raises(ConfigError, match="the configuration must be a map"):
        parse_config(content)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"stream: [", "is not valid YAML: .* line 1"),
        (b"\xff\xfe\x00bad", "is not valid YAML"),
        (b"stream: a\nstreem: b", "analysis.yml: the configuration: unknown key 'streem'"),
        (
            b"stream: a\noperators: {a: [mean]}\nwindows: [{days: {count: 5, since: 2001-02-30}}]",
            "since: '2001-02-30'",
        ),
        (b"!!python/object:os.system {}", "is not valid YAML"),
    ],
)
def test_a_file_that_can_not_be_read_is_named(tmp_path, text, says):
    path = tmp_path / "analysis.yml"
    path.write_bytes(text)
    with pytest.raises(ConfigError, match=says) as caught:
        load_config(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"can't read .*none.yml: No such file"):
        load_config(tmp_path / "none.yml")


@pytest.mark.parametrize(
    ("raw", "meant"),
    [
        ("none", RawConfig(variables=())),
        ("all", RawConfig()),
        ({"every": 4}, RawConfig(every=4)),
        ({"variables": "tas"}, RawConfig(variables=("tas",))),
        ({"variables": ["tas", "pr"], "compression": "zstd"}, RawConfig(("tas", "pr"), compression="zstd")),
        ({"variables": []}, RawConfig(variables=())),
    ],
)
def test_raw_steps_are_chosen_by_word_or_by_map(raw, meant):
    config = parse_config(SMALL | {"raw": raw})
    assert config.raw == meant
    assert config.raw.wanted == (meant.variables != ())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"nodes": None}, "the configuration: the key 'nodes' has no value: give it one, or take it out"),
        ({"time": {"units": None, "calendar": "noleap"}}, "time: the key 'units' has no value"),
        ({"operators": {"heat": {"of": None, "operators": ["mean"]}}}, "operators of heat: the key 'of' has no value"),
        ({"operators": {"tas": [{"mean": {"skipna": None}}]}}, "operator 'mean': the parameter 'skipna' has no value"),
        ({"functions": {"lows": {"call": "lows:find", "of": ["psl"], "when": None}}}, "the key 'when' has no value"),
        ({"select": {"io": "a*", "until": None}}, "select: the key 'until' has no value"),
    ],
)
def test_a_key_without_a_value_is_refused(given, message):
    with pytest.raises(ConfigError, match=message):
        parse_config(SMALL | given)


def test_time_is_told_by_steps_if_the_configuration_says_so_or_nothing():
    assert parse_config(SMALL | {"time": "steps"}).time == parse_config(SMALL | {"time": {"by": "steps"}}).time
    assert parse_config(SMALL | {"time": {"interval": 2}}).time.by == "either"
    assert parse_config(SMALL | {"time": {"variable": "t"}}).time.by == "time"
    assert parse_config(SMALL).output == Path("bbflow-out")


@pytest.mark.parametrize("units", ["days since 2001-02-30", "months since 2000-01-01", "days since 2000-01-31"])
def test_units_are_taken_if_any_calendar_that_the_stream_may_have_can_read_them(units):
    assert parse_config(SMALL | {"time": {"units": units}}).time.units == units


@pytest.mark.parametrize(("name", "stream"), [("climate", "climate"), ("model-levels", "atm")])
def test_the_catalog_can_be_read(name, stream):
    assert load_config(ROOT / "catalogs" / "operators" / f"{name}.yml").stream == stream


def test_the_documentation_names_every_key():
    page = (ROOT / "docs" / "configuration.md").read_text()
    for section in (NodesConfig, WorkersConfig, TimeConfig, RawConfig, ResultsConfig):
        for key in fields(section):
            assert re.search(rf"`(\w+: )?{key.name}`", page), f"{key.name} of {section.__name__}"


DEFAULT = re.compile(r"^\| `(\w+)(?:: (\w+))?` \| `([^`|]+)` \|", re.MULTILINE)
NEEDS = {"variable": {"by": "time"}, "land_states_every": {"on": "rank"}, "device_memory": {"on": "device"}}


def defaults_told():
    """Return section, key and default of each row that gives one; `work` is of outputs in a bucket alone."""
    table = (ROOT / "docs" / "configuration.md").read_text().partition("## Diagnostics")[0]
    return [row for row in DEFAULT.findall(table) if row[0] != "work"]


@pytest.mark.parametrize(("section", "key", "default"), defaults_told())
def test_what_the_documentation_calls_the_default_changes_nothing(section, key, default):
    beside = NEEDS.get(key, {})
    told = {section: beside | {key: yaml.safe_load(default)} if key else yaml.safe_load(default)}
    given, silent = parse_config(SMALL | told), parse_config(SMALL | ({section: beside} if key else {}))
    assert replace(given, content={}) == replace(silent, content={})


def test_the_examples_of_the_documentation_can_be_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("tas_ymonmean.nc", "tx.zarr", "tx90.nc", "tn10.nc", "r95.nc"):  # which examples name
        xr.Dataset({"p90": (("lat", "lon"), np.zeros((2, 3)))}).to_netcdf(name)
    own = ROOT / "docs" / "own-operators.md"  # names a module that its own test writes
    pages = [ROOT / "README.md", *(page for page in sorted((ROOT / "docs").glob("*.md")) if page != own)]
    examples = [text for page in pages for text in re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL)]
    plans = [text for text in examples if isinstance(yaml.safe_load(text), list)]
    assert plans
    assert len(examples) > len(plans)
    for text in examples:
        if text in plans:
            (tmp_path / "plan.yml").write_text(text.replace("sha256:…", "sha256:" + 64 * "0"))
            assert read_plan(tmp_path / "plan.yml")
        elif "ensemble" in yaml.safe_load(text):
            parse_ensemble({"stream": "a"} | yaml.safe_load(text))
        else:
            parse_config({"stream": "a", "operators": {"tas": ["mean"]}} | yaml.safe_load(text))


@pytest.mark.parametrize(
    ("operators", "workers", "processes"),
    [
        (["mean"], {}, 0),
        (["mean", "share_of_steps:Share"], {}, 1),
        ({"each": {"day": "share_of_steps:Share"}, "operators": ["mean"]}, {}, 1),
        (["share_of_steps:Share"], {"processes": 0}, 0),
        (["mean"], {"processes": 2}, 2),
    ],
)
def test_only_users_code_has_a_process_of_its_own_unless_said_otherwise(
    operators, workers, processes, tmp_path, monkeypatch
):
    (tmp_path / "share_of_steps.py").write_text(
        "class Share:\n"
        "    @staticmethod\n"
        "    def map(values, valid): return {'n': valid.sum(0)}\n"
        "    @staticmethod\n"
        "    def combine(first, second): return {'n': first['n'] + second['n']}\n"
        "    @staticmethod\n"
        "    def finalize(state): return state['n'].astype('f8')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    content = {"stream": "s", "operators": {"tas": operators}, "workers": workers}
    assert parse_config(content).workers.processes == processes


def test_a_rule_may_stand_alone_and_sets_parameters_as_the_engine_reads_them():
    (rule,) = parse_config(SMALL | {"select": {"io": "wrf*", "parameters": {"Pin": True, "Groups": 2}}}).select
    assert (rule.io, rule.file, rule.stream) == ("wrf*", None, None)
    assert rule.parameters == {"Pin": "yes", "Groups": "2"}
    rules = parse_config(SMALL | {"select": [{"io": "a"}, {"file": "*.nc", "stream": "b"}]}).select
    assert [rule.stream for rule in rules] == [None, "b"]
