import pickle
import re
from pathlib import Path

import numpy as np
import pytest
import yaml
from laws import folded, layout_of

from bbflow.operators import Filter, StateLayout, parse_operators
from bbflow.operators.catalogue import KINDS
from bbflow.operators.file_fields import AREA_SHARE
from bbflow.operators.steps import Steps
from bbflow.operators.transforms import KINDS as TRANSFORMS
from bbflow.operators.transforms import parse_transforms


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_the_example_of_every_operator_is_valid_and_gives_results(kind):
    operators = parse_operators([yaml.safe_load(kind.example)])
    assert not any(isinstance(operator, Filter) for operator in operators)
    assert pickle.loads(pickle.dumps(operators)) == operators
    values = np.random.default_rng(0).normal(size=(9, 20)).astype("f4")
    others = {name: Steps(list(values[::-1])) for operator in operators for name in operator.inputs}
    others |= {name: Steps(list(np.full_like(values, 2000))) for item in operators for name in item.family.dates}
    others |= {AREA_SHARE: Steps(list(np.ones_like(values)))}
    layout = layout_of(operators, values)
    state = folded(layout, values, others=others)
    for operator in operators:
        result = operator.finalize(layout, state)
        assert result.shape[-1] == 20
        assert result.dtype == operator.dtype(values.dtype)
        assert np.isfinite(result).all() or operator.family.dates  # of whole years, which aren't there
        assert operator.units("K", "days", time_units="days since 2000-01-01", other="Pa")


def test_every_operator_is_on_the_page_of_operators():
    page = (Path(__file__).parents[2] / "docs" / "operators.md").read_text()
    assert [name for name in KINDS if not re.search(rf"[`{{ ]{name}[`:]", page)] == []


def bytes_told():
    """Yield operator, its parameters and the bytes of a point, from the tables of the page of operators."""
    column = None
    for line in (Path(__file__).parents[2] / "docs" / "operators.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if "bytes per point" in cells:
            column = cells.index("bytes per point")
        elif column is None or not line.startswith("|"):
            column = None
        for given in re.findall(r"`([^`]+)`", cells[0]) if column is not None else ():
            name, _, parameters = given.partition(": ")
            if name in KINDS:
                yield name, yaml.safe_load(parameters or "{}"), cells[column]


@pytest.mark.parametrize(("name", "parameters", "told"), list(bytes_told()))
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_a_state_takes_what_the_page_says(name, parameters, told, dtype):
    example = yaml.safe_load(KINDS[name].example)
    given = example[name] if isinstance(example, dict) else {}
    operators = parse_operators([{name: given | parameters}])
    few, many = (StateLayout.of(operators, dtype=np.dtype(dtype), points=points).nbytes for points in (4096, 8192))
    assert (many - few) / 4096 == sum(int(dtype[1]) if part == "V" else int(part) for part in told.split(" + "))


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_results_are_no_part_of_the_state(kind):
    """A result is published while the next steps are folded into the same buffer."""
    operators = parse_operators([yaml.safe_load(kind.example)])
    values = np.ones((3, 4))
    others = {name: Steps(list(values)) for item in operators for name in (*item.inputs, *item.family.dates)}
    others |= {AREA_SHARE: Steps(list(values))}
    layout = layout_of(operators, values)
    state = folded(layout, values, others=others)
    results = [operator.finalize(layout, state) for operator in operators]
    before = [result.copy() for result in results]
    state[:] = b"\x7f" * len(state)
    for result, earlier in zip(results, before, strict=True):
        np.testing.assert_array_equal(result, earlier)


@pytest.mark.parametrize("kind", TRANSFORMS.values(), ids=lambda kind: kind.name)
def test_the_example_of_every_transform_is_valid(kind):
    (transform,) = parse_transforms([yaml.safe_load(kind.example)])
    assert transform.name == kind.name
    assert pickle.loads(pickle.dumps(transform)) == transform
