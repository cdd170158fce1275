import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from bbflow.errors import ConfigError, MissingToolError
from bbflow.operators import Filter, StateLayout, fold_steps, library, parse_operators
from bbflow.operators.statistics.basic import KINDS


def test_names_and_maps_become_operators():
    mean, std, hot = parse_operators(yaml.safe_load("[mean, {std: {ddof: 1}}, {filter: {above: 310.0}}]"))
    assert (mean,) == next(kind.make() for kind in KINDS if kind.name == "mean")
    assert dict(std.parameters) == {"ddof": 1}
    assert hot == Filter("above", above=310.0)


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ({"filter": {"below": 2}}, Filter("below", below=2)),
        ({"filter": {"above": 1, "below": 2}}, Filter("between", 1, 2)),
        ({"filter": {"above": "1e5", "name": "storm"}}, Filter("storm", above=1e5)),
    ],
)
def test_a_filter_is_named_after_its_limits_unless_it_has_a_name(item, expected):
    assert parse_operators([item]) == (expected,)


@pytest.mark.parametrize(
    ("items", "message"),
    [
        (["maen"], "unknown operator 'maen'; did you mean 'mean'"),
        (["monmaen"], "unknown operator 'monmaen'; did you mean 'monmean'"),
        (["mean,max"], r"write each one by itself, as \[mean, max\]"),
        (["monmean"], "'monmean' says more than an operator"),
        (["zzz"], "valid are "),
        ([{"std": {"dof": 1}}], "unknown parameter 'dof'; did you mean 'ddof'"),
        ([{"std": {"ddof": -1}}], "ddof: -1 is not a whole number"),
        ([{"std": {"ddof": True}}], "ddof: True is not a whole number"),
        ([{"mean": {"ddof": 1}}], "unknown parameter 'ddof'; valid are min_count"),
        ([{"mean": 3}], "must be a map"),
        ([{"filter": {"abvoe": 1}}], "did you mean 'above'"),
        (["filter"], "needs a limit"),
        ([{"filter": {"above": "hot"}}], "not a finite number"),
        ([{"filter": {"above": float("inf")}}], "not a finite number"),
        ([{"filter": {"above": True}}], "not a finite number"),
        ([{"filter": {"above": 2, "below": 1}}], "keeps nothing"),
        ([{"filter": {"above": 2, "name": "a/b"}}], "must be a word"),
        ([{"filter": {"above": 2, "name": "mean"}}], "must be a word"),
        (["mean", "mean"], "twice"),
        ([{"filter": {"above": 2}}, {"filter": {"above": 3}}], "twice"),
        ([3], "not an operator"),
        ([{"mean": None, "max": None}], "not an operator"),
        ([], "no operators"),
    ],
)
def test_what_is_wrong_is_named_with_the_nearest_valid_name(items, message):
    with pytest.raises(ConfigError, match=message):
        parse_operators(items)


def test_every_operator_describes_its_result_in_cf_terms():
    described = {
        item.name: (item.cell_method, item.units("K"), item.dtype(np.dtype("f4")), item.dtype(np.dtype("i2")))
        for item in parse_operators([kind.name for kind in KINDS])
    }
    assert described == {
        "mean": ("mean", "K", "f8", "f8"),
        "std": ("standard_deviation", "K", "f8", "f8"),
        "var": ("variance", "(K)2", "f8", "f8"),
        "sum": ("sum", "K", "f8", "f8"),
        "min": ("minimum", "K", "f4", "f8"),
        "max": ("maximum", "K", "f4", "f8"),
        "range": ("range", "K", "f8", "f8"),
        "count": ("sum (of 1 for each valid value)", "1", "i4", "i4"),
    }


def test_a_missing_kernel_says_how_to_build_it(tmp_path):
    with pytest.raises(MissingToolError, match=r"not built; install bbflow again"):
        library.load_from(tmp_path / "libnowhere.so")


def test_the_configuration_in_the_guide_is_valid():
    guide = Path(__file__).parents[2] / "docs" / "operators.md"
    blocks = [part.split("```")[0] for part in guide.read_text().split("```yaml\n")[1:]]
    parsed = [operators for text in blocks for operators in yaml.safe_load(text)["operators"].values()]
    assert len(parsed) >= 2
    for operators in parsed:
        parse_operators(operators["operators"] if isinstance(operators, dict) else operators)


def test_the_python_in_the_guide_runs():
    guide = Path(__file__).parents[2] / "docs" / "operators.md"
    code = "\n".join(part.split("```")[0] for part in guide.read_text().split("```python\n")[1:])
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, cwd=guide.parents[1])


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({}, [2.0, 4.0, np.nan]),
        ({"min_count": 2}, [2.0, np.nan, np.nan]),
        ({"skipna": False}, [2.0, np.nan, np.nan]),
        ({"skipna": False, "min_count": 4}, [np.nan, np.nan, np.nan]),
    ],
)
def test_every_operator_takes_min_count_and_skipna_as_xarray_has_them(parameters, expected):
    values = np.array([[1, 4, np.nan], [3, np.nan, np.nan], [2, np.nan, np.nan]], "f4")
    (mean,) = parse_operators([{"mean": parameters}])
    layout = StateLayout.of([mean], dtype=values.dtype, points=3)
    parts = [bytearray(layout.nbytes) for _ in range(2)]
    fold_steps(layout, None, parts[0], list(values[:1]))
    fold_steps(layout, None, parts[1], list(values[1:]))
    layout.combine(*parts, parts[0])
    np.testing.assert_array_equal(mean.finalize(layout, parts[0]), expected)
