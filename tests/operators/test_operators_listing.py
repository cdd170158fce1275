import re
from collections import Counter
from pathlib import Path

import pytest
import yaml

from bbflow.errors import ConfigError
from bbflow.operators.catalogue import KINDS
from bbflow.operators.configured import parse_diagnostics
from bbflow.operators.names.indices import INDICES
from bbflow.operators.names.known import NAMES, meaning
from bbflow.operators.names.listing import SECTIONS, SPACES, entries, find, overview
from bbflow.operators.parse import parse_operators
from bbflow.operators.space import parse_space
from bbflow.operators.space.moves import NAMES as SPACE_NAMES
from bbflow.operators.space.parse_spaces import KEYS, OPTIONS
from bbflow.operators.transforms import parse_transforms
from bbflow.operators.windows import parse_window
from bbflow.operators.windows.kinds import KINDS as WINDOW_KINDS

GUIDE = (Path(__file__).parents[2] / "docs" / "windows.md").read_text()
ROWS = re.findall(r"^\| (`[^|]*) \|", GUIDE, re.MULTILINE)
READERS = {
    "statistics": lambda item: parse_operators([item]),
    "transforms": lambda item: parse_transforms([item]),
    "windows": parse_window,
    "spaces": parse_space,
}


@pytest.mark.parametrize(
    "entry", [entry for entry in entries() if entry.section in READERS], ids=lambda item: item.name
)
def test_every_example_is_valid(entry):
    assert READERS[entry.section](yaml.safe_load(entry.example))
    assert find(entry.name)[0].summary


def test_nothing_is_left_out():
    listed = {entry.name for entry in entries()}
    assert {*KINDS, *NAMES, "filter"} <= listed
    assert set(SPACES) == set(KEYS) - set(OPTIONS) - {"std1", "var1"}  # in the lines of std and var
    assert set(SPACE_NAMES) <= set(NAMES)
    assert {entry.section for entry in entries()} <= set(SECTIONS)


def test_the_overview_has_a_line_for_each_window_of_cdo():
    names = [entry.name for entry in overview()]
    twice = sorted(name for name, count in Counter(names).items() if count > 1)  # of time and of space, or xarray's too
    both = "correlation count covariance cumsum max mean median min range std sum var"
    assert twice == ["coarsen", *both.split()]
    assert {"ymon…", "fldmean", "eca_cdd", "resample"} <= set(names)
    assert "ymonmean" not in names


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("monmean", "windows: [month], operators: [mean]"),
        ("timpctl,90", "percentiles: {q: [90.0]}"),
        ("QS-DEC", "season"),
        ("FD", "below: 273.15}}]} of a variable in K"),
        ("resample", ""),
    ],
)
def test_a_name_says_what_it_means(written, told):
    assert told in find(written)[-1].means


def test_an_operator_says_what_it_takes():
    entry, _ = find("covariance")
    assert [name for name, _ in entry.parameters] == ["with", "ddof"]
    assert entry.parameters[0][1].endswith("(required)")


def test_an_unknown_name_proposes_the_nearest():
    with pytest.raises(ConfigError, match="did you mean 'monmean'"):
        find("monmaen")


@pytest.mark.parametrize("row", [row for row in ROWS if row.strip("`").split(":")[0] in WINDOW_KINDS])
def test_every_window_of_the_guide_is_one(row):
    assert parse_window(yaml.safe_load(row.strip("`")))


def test_the_guide_has_every_window_and_index():
    assert {row.strip("`").split(":")[0] for row in ROWS} >= set(WINDOW_KINDS)
    assert set(INDICES) <= set(re.findall(r"`(\w+)`", GUIDE))


@pytest.mark.parametrize("row", re.findall(r"^\| `([^`]*)` \| `(\w+: [^`]*)`", GUIDE, re.MULTILINE))
def test_every_name_of_the_guide_means_what_stands_there(row):
    item, told = yaml.safe_load(row[0]), yaml.safe_load("{" + row[1] + "}")
    means = meaning(item)
    found = means.parts | ({"operators": [means.operator]} if means.operator else {})
    assert found.keys() == told.keys()
    for key, value in told.items():
        if key == "windows":
            assert [parse_window(item) for item in found[key]] == [parse_window(item) for item in value]
        else:
            assert found[key] == value


def test_the_example_of_the_guide_is_valid():
    content = yaml.safe_load(GUIDE.split("```yaml\n")[1].split("```")[0])
    assert parse_diagnostics(content["operators"], ["run"]).keys() == {"tas", "rain"}
