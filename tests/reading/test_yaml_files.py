"""What people write as YAML is read as they mean it, and a key that comes twice is refused."""

import math
import os

import pytest
import yaml

from bbflow.cli import main
from bbflow.configuring.config import load_config, parse_config
from bbflow.errors import ConfigError
from bbflow.reading.yaml_files import parse_yaml, read_yaml
from bbflow.simulate.scenario import load_scenario
from bbflow.staging.staging_plan import read_plan

BASE = "stream: s\noperators: {tas: [mean]}\n"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *((word, word) for word in ("NO", "yes", "on", "Off", "n", "12:30", "2000-02-30", "1_000", "007", "0b1", "=")),
        *((word, True) for word in ("true", "True", "TRUE")),
        *((word, None) for word in ("", "~", "null")),
        ("false", False),
        ("1e20", 1e20),
        ("-.5", -0.5),
        ("5.", 5.0),
        ("0x1F", 31),
        ("0o17", 15),
        ("-3", -3),
        (".inf", math.inf),
        ("'1'", "1"),
        ('"NO"', "NO"),
        ("!!str 1", "1"),
    ],
)
def test_plain_words_are_what_yaml_1_2_takes_them_for(text, value):
    read = parse_yaml(f"a: {text}")["a"]
    assert read == value
    assert type(read) is type(value)


def test_keys_are_texts():
    assert parse_yaml("{NO: 1, true: 2, 1: 3, 1.50: 4, ~: 5}") == {"NO": 1, "true": 2, "1": 3, "1.50": 4, "~": 5}


def test_a_map_that_is_merged_gives_way():
    assert parse_yaml("a: &a {p: 1, q: 2}\nb: {<<: *a, q: 3}")["b"] == {"p": 1, "q": 3}


@pytest.mark.parametrize("text", ["a: [", "[a]: 1", "? {a: 1}\n: 2", "- 1\n---\n- 2", "!!python/name:os.system x"])
def test_what_is_no_plain_yaml_is_refused(text):
    with pytest.raises(ConfigError, match=r"is not valid YAML: .*line"):
        parse_yaml(text)


TWICE = {
    "run.yml": ("stream: s\noperators:\n  tas: [mean]\n  tas: [max]\n", load_config),
    "deep.yml": (f"{BASE}nodes:\n  count: 1\n  capacity: 1GiB\n  count: 2\n", load_config),
    "plan.yml": ("- inputs: [a]\n  task: x\n  inputs: [b]\n", read_plan),
    "plan.json": ('[{"inputs": ["a"],\n\n "inputs": ["b"]}]', read_plan),
    "scenario.yml": ("kind: cloud\n\n\nkind: cloud\n", load_scenario),
}
LINES = {"run.yml": "3 and 4", "deep.yml": "4 and 6", "plan.yml": "1 and 3", "plan.json": "1 and 3"}


@pytest.mark.parametrize("name", TWICE)
def test_a_key_that_comes_twice_is_refused_with_both_lines(tmp_path, name):
    text, load = TWICE[name]
    (tmp_path / name).write_text(text)
    lines = LINES.get(name, "1 and 4")
    with pytest.raises(ConfigError, match=rf"{name} is not valid YAML: the key '\w+' is given twice, in lines {lines}"):
        load(tmp_path / name)


def test_what_cannot_be_read_is_named(tmp_path):
    (tmp_path / "latin.yml").write_bytes(b"a: \xb0C")
    (tmp_path / "cut.json").write_bytes(b"[1, ")
    with pytest.raises(ConfigError, match=r"latin.yml is not valid YAML: .*utf-8"):
        read_yaml(tmp_path / "latin.yml")
    with pytest.raises(ConfigError, match=r"cut.json is not valid JSON"):
        read_yaml(tmp_path / "cut.json")
    with pytest.raises(ConfigError, match=r"can't read .*none.yml: No such file"):
        read_yaml(tmp_path / "none.yml")


def test_nitric_oxide_is_a_variable_and_yes_is_a_flag(tmp_path):
    operators = "operators: {NO: [mean, {covariance: {with: on}}]}"
    (tmp_path / "run.yml").write_text(
        f"stream: NO\n{operators}\nnetcdf: yes\nraw: {{variables: [NO, no], dedup: off}}\n"
    )
    config = load_config(tmp_path / "run.yml")
    assert (config.stream, set(config.diagnostics), config.netcdf) == ("NO", {"NO"}, True)
    assert (config.raw.variables, config.raw.dedup) == (("NO", "no"), False)
    assert config.diagnostics["NO"].variables == ("NO", "on")


@pytest.mark.parametrize(
    "changes", [{"stream": True}, {"operators": {False: ["mean"]}}, {"raw": {"variables": [True]}}]
)
def test_a_boolean_where_a_name_is_wanted_must_be_quoted(changes):
    with pytest.raises(ConfigError, match="quote it"):
        parse_config({"stream": "s", "operators": {"tas": ["mean"]}} | changes)


def test_paths_begin_at_home_where_they_say_so(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    given = {"output": "~/out", "continue": "~/earlier", "nodes": {"directory": "~/nodes"}, "raw": {"phases": "~/ph"}}
    config = parse_config(yaml.safe_load(BASE) | given)
    found = [config.output, config.continued, config.nodes.directory, config.raw.phases]
    assert found == [tmp_path / name for name in ("out", "earlier", "nodes", "ph")]
    assert str(parse_config(yaml.safe_load(BASE) | {"output": "./~"}).output) == "~"
    with pytest.raises(ConfigError, match=r"output: .*home directory that isn't there"):
        parse_config(yaml.safe_load(BASE) | {"output": "~nobody-of-this-name/out"})


def test_the_command_line_reads_paths_as_the_configuration_does(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "run.yml").write_text("stream: s\nstream: s\n")
    assert main(["check", "~/run.yml"]) == os.EX_USAGE
    assert f"{tmp_path}/run.yml is not valid YAML: the key 'stream' is given twice" in capsys.readouterr().err
    assert main(["check", "~nobody-of-this-name/run.yml"]) == os.EX_USAGE
    assert "begins with a home directory that isn't there" in capsys.readouterr().err


def test_a_file_of_brackets_that_nobody_closes_is_refused_in_one_line(tmp_path):
    (tmp_path / "deep.yml").write_text("[" * 99999)
    with pytest.raises(ConfigError, match=r"deep\.yml is not valid YAML: .*exceeded maximum nesting depth.*$"):
        load_config(tmp_path / "deep.yml")


def test_a_file_of_brackets_in_each_other_is_refused(tmp_path):
    (tmp_path / "deep.json").write_text("[" * 99999)
    with pytest.raises(ConfigError, match=r"deep\.json has too many brackets in each other$"):
        load_config(tmp_path / "deep.json")


def test_a_link_to_itself_is_refused(tmp_path):
    (tmp_path / "loop.yml").symlink_to("loop.yml")
    with pytest.raises(ConfigError, match=r"can't read .*loop\.yml: Too many levels of symbolic links"):
        load_config(tmp_path / "loop.yml")
