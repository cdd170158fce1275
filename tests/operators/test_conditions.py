"""Conditions on steps, against NumPy."""

import numpy as np
import pytest

from bbflow.errors import ConfigError
from bbflow.operators.conditions import parse_condition

FIELDS = {
    "pr": np.array([[0.0, 2e-3], [np.nan, 1e-4]], "f4"),
    "u": np.array([3.0, 0.0]),
    "v": np.array([4.0, 1.0]),
    "t.2m": np.array([280.0, 300.0]),
    "none": np.array([np.nan]),
}


def holds(text, **singles):
    condition = parse_condition(text)
    numbers = {name: item.evaluate(FIELDS.__getitem__) for name, item in condition.statistics.items()}
    return condition.holds(numbers | singles)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("max(pr) > 1e-3", True),
        ("max(pr) > 1e-2", False),
        ("min(pr) == 0", True),
        ("max(hypot(u, v)) >= 5", True),
        ("max(hypot(u, v)) > 5", False),
        ("max(`t.2m`) - min(`t.2m`) == 20", True),
        ("mean(u > 1) == 0.5", True),
        ("sum(pr > 0) == 2", True),
        ("max(pr) > 1e-3 and max(u) > 100", False),
        ("max(pr) > 1e-3 or max(u) > 100", True),
        ("max(max(u), max(v)) == 4", True),
        ("max(none) < 5", False),
        ("not (max(none) < 5)", False),
        ("phase == 2 and max(u) > 1", True),
        ("isnan(max(none))", True),
    ],
)
def test_a_condition_is_an_expression_of_one_number_for_each_field(text, expected):
    singles = {"phase": 2.0} if "phase" in text else {}
    assert holds(text, **singles) is expected


def test_a_condition_knows_its_variables():
    condition = parse_condition("max(u**2 + v**2) > 3 and phase == 2")
    assert condition.variables == ("u", "v", "phase")
    assert condition.singles == ("phase",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "isn't a condition"),
        (3, "isn't a condition"),
        ("max(pr) >", "not understood"),
        ("maximum(pr) > 1", "unknown function"),
        ("max(3) > 1", "has no variable"),
        ("1 > 0", "has no variable"),
    ],
)
def test_what_is_no_condition_is_told(text, message):
    with pytest.raises(ConfigError, match=message):
        parse_condition(text)


def test_fields_of_one_expression_have_one_size():
    with pytest.raises(ConfigError, match="pr has 4, u has 2"):
        holds("max(pr * u) > 1")
