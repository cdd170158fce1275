import pytest
import yaml

from bbflow.errors import ConfigError
from bbflow.operators.catalogue import KINDS
from bbflow.operators.listing import SECTIONS, SPACES, entries, find, overview
from bbflow.operators.names import NAMES
from bbflow.operators.parse import parse_operators
from bbflow.operators.space import parse_space
from bbflow.operators.space.names import NAMES as SPACE_NAMES
from bbflow.operators.space.parse import KEYS, OPTIONS
from bbflow.operators.transforms import parse_transforms
from bbflow.operators.windows import parse_window

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
    assert set(SPACES) == set(KEYS) - set(OPTIONS)
    assert set(SPACE_NAMES) <= set(NAMES)
    assert {entry.section for entry in entries()} <= set(SECTIONS)


def test_the_overview_has_a_line_for_each_window_of_cdo():
    names = [entry.name for entry in overview()]
    assert len(names) == len(set(names)) + len({"mean", "sum", "min", "max", "coarsen", "cumsum"})  # of time and space
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
    (entry,) = find("covariance")
    assert [name for name, _ in entry.parameters] == ["with", "ddof"]
    assert entry.parameters[0][1].endswith("(required)")


def test_an_unknown_name_proposes_the_nearest():
    with pytest.raises(ConfigError, match="did you mean 'monmean'"):
        find("monmaen")
