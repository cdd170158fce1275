"""Every operator and transform, with missing values: in other blocks, after a crash and in several runs as in one."""

from pathlib import Path

import numpy as np
import pytest
import shards
import yaml
from test_states_go_on import COLUMNS, HOURS, ONE, QUARTERS, ROWS, STEPS, assert_same, values

from bbflow.operators import parse_operators
from bbflow.operators.catalogue import KINDS
from bbflow.operators.transforms import KINDS as TRANSFORMS


def item_of(kind):
    """The example of a kind; the other variable, if it takes one, is made of the same."""
    item = yaml.safe_load(kind.example)
    if isinstance(item, dict) and "with" in (item[kind.name] or {}):
        item[kind.name]["with"] = "x * x"
    return item


def diagnostics():
    made = {}
    for name, kind in KINDS.items():
        families = [operator.family for operator in parse_operators([item_of(kind)])]
        if not any(family.gathers for family in families):  # all points of a field are in one place: see test_eofs
            each = {"each": {"day": "mean"}} if any(family.dates for family in families) else {}
            made[name] = {
                "of": "x",
                "operators": [item_of(kind)],
                "windows": ["run"] if each else ["month", "run"],
                **each,
            }
    for name, kind in TRANSFORMS.items():
        transforms = [yaml.safe_load(kind.example)]
        made[f"after_{name}"] = {
            "of": "x",
            "transforms": transforms,
            "operators": ["mean", "last"],
            "windows": ["month"],
        }
    return made


CONFIG = {"operators": diagnostics()}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return shards.run(tmp_path_factory.mktemp("whole"), CONFIG, values(), HOURS, ONE)


@pytest.mark.parametrize("placed", [ROWS, QUARTERS], ids=["rows", "quarters"])
def test_blocks_and_a_crash_change_nothing(whole, placed, tmp_path):
    assert_same(shards.run(tmp_path, CONFIG, values(), HOURS, placed, batch_steps=3, crash_at=17), whole)


def test_three_runs_of_other_blocks_that_go_on_come_to_the_same(whole, tmp_path):
    before: Path | None = None
    for number, (first, end, placed) in enumerate([(0, 13, COLUMNS), (13, 14, ONE), (14, STEPS, ROWS)]):
        own = tmp_path / str(number)
        saved = shards.run(own, CONFIG, values()[first:end], HOURS[first:end], placed, before=before, batch_steps=4)
        before = own
    assert_same(saved, whole)


def test_one_month_can_be_selected_for_every_operator(tmp_path):
    selection = {"of": "where(m == 2, x, nan)", "fields": {"m": {"calendar": "month"}}}
    selected = {"operators": {name: {**own, **selection} for name, own in diagnostics().items()}}
    months = np.array([shards.CLOCK.date(hour).month for hour in HOURS])
    field = values()
    found = shards.statistics(shards.run(tmp_path / "selected", selected, field, HOURS, ROWS))
    field[months != 2] = np.nan
    expected = shards.statistics(shards.run(tmp_path / "masked", CONFIG, field, HOURS, ONE))
    assert set(months) == {1, 2}
    assert found.keys() == expected.keys()
    for place, result in expected.items():
        np.testing.assert_allclose(found[place], result, rtol=1e-9, atol=1e-12, err_msg=str(place))
