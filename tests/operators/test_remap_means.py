"""Steps that are remapped as their mean give what remapping each of them gives, to thirteen digits."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from test_remap_blocks import SHAPE, decompositions, placed, scrip

from bbflow.operators.configured import parse_diagnostics
from bbflow.operators.fold import fold_steps
from bbflow.operators.kernel_arrays import as_fill
from bbflow.operators.parse import parse_operators
from bbflow.operators.space.links import TILE_LINKS, Links
from bbflow.operators.state import StateLayout
from bbflow.operators.steps import Steps

TYPES = [np.dtype(name) for name in ("f4", "f8", "i1", "i2", "u4", "i8")]

MISSING = ["nothing", "always", "in some steps", "in some steps of one level", "at first", "infinite", "both infinite"]
MEANS = parse_operators(["mean", "sum", "count"])


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    return str(scrip(tmp_path_factory.mktemp("weights") / "weights.nc"))


def fields(missing, steps, dtype, seed):
    """Steps of which values are missing somehow."""
    random = np.random.default_rng(seed)
    values = random.normal(280, 10, (steps, *SHAPE))
    if missing == "always":
        values[:, random.random(SHAPE) < 0.3] = np.nan
    elif missing == "in some steps":
        values[random.random(values.shape) < 0.3] = np.nan
    elif missing == "in some steps of one level":
        values[:, 1][random.random(values[:, 1].shape) < 0.2] = np.nan
    elif missing == "at first":
        values[0, :, 3] = np.nan
    elif "infinite" in missing:
        values[0, 1, 2, 5] = np.inf
        values[-1, 1, 2, 5 + (seed % 2)] = np.inf if missing == "infinite" else -np.inf
    if dtype.startswith("i"):
        values = np.where(np.isfinite(values), values, -99)
    return values.astype(dtype)


def statistics(arrays):
    """What a mean, a sum and a number make of steps, by the states that are kept for them."""
    layout = StateLayout.of(MEANS, dtype=arrays[0].dtype, points=arrays[0].size)
    state = bytearray(layout.nbytes)
    fold_steps(layout, None, state, arrays)
    return [item.finalize(layout, state) for item in MEANS]


def assert_alike(found, wanted):
    for one, other in zip(statistics(found), statistics(wanted), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13)


def cut(values, start, count, fill):
    ends = (slice(first, first + size) for first, size in zip(start, count, strict=True))
    blocks = [np.ascontiguousarray(step).reshape(-1) for step in values[(slice(None), *ends)]]
    return Steps(blocks, as_fill(fill, values.dtype))


CHAINS = [
    ([], []),
    ([{"mask": "land"}], []),
    ([{"levels": [500, 1000]}], ["sellonlatbox,10,200,-30,90"]),
    ([], [{"mean": ["lat", "lon"], "weights": "cell_area"}]),
    ([], [{"mean": ["lev"], "weights": "none"}]),
]


@pytest.mark.parametrize("missing", MISSING)
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_both_ways_agree_for_any_decomposition(weights, missing, data):
    """Blocks with whole planes by themselves; others joined, of the mean if all have it, else step by step."""
    dtype, steps = data.draw(st.sampled_from(["f4", "f8", "i2"])), data.draw(st.integers(1, 9))
    fill = -99 if dtype == "i2" else data.draw(st.sampled_from([None, -99]))
    values = fields(missing, steps, dtype, data.draw(st.integers(0, 99)))
    before, after = data.draw(st.sampled_from(CHAINS))
    order = (0, 1, 2) if before or after else data.draw(st.sampled_from([(0, 1, 2), (1, 2, 0)]))
    dims = tuple(np.array(["lev", "lat", "lon"])[list(order)])
    placement = placed([*before, {"remap": weights}, *after], dims, tuple(SHAPE[axis] for axis in order))
    values = np.ascontiguousarray(values.transpose(0, *(axis + 1 for axis in order)))
    averaged, single = [], []
    for start, count in data.draw(decompositions(values.shape[1:])):
        local = placement.local(start, count)
        if local is None:
            continue
        local, own = pickle.loads(pickle.dumps(local)), cut(values, start, count, fill)
        if local.complete:
            assert_alike(local.averaged(own), local.values(own))
        averaged.append((local, local.averaged_partial(own)))
        single.append((local, local.partial(own)))
    lengths = {len(part) for _, part in averaged}
    assert lengths <= {1, steps}
    if missing in ("nothing", "always"):
        assert lengths == {1}
    if len(lengths) == 1:
        found = placement.finish(placement.assemble(*lengths, averaged))
        wanted = placement.finish(placement.assemble(steps, single))
        assert_alike([*found] * (steps // len(found)), [*wanted])


CELLS, ROWS = 3 * TILE_LINKS, 40


def many_links(kind, seed):
    """A matrix of several tiles, a row of which lies in two or more of them."""
    random = np.random.default_rng(seed)
    lengths = np.diff([0, *sorted(random.choice(np.arange(1, CELLS), ROWS - 1, replace=False)), CELLS])
    columns = {
        "in order": np.arange(CELLS),
        "with gaps": np.sort(random.integers(0, 4 * CELLS, CELLS)),
        "anyhow": random.permutation(CELLS),
        "few": random.integers(0, 50, CELLS),
    }[kind]
    starts, values = np.append(0, np.cumsum(lengths)), random.random(CELLS)
    size = int(columns.max()) + 1
    matrix = csr_array((values, columns, starts), (ROWS, size))
    totals = np.add.reduceat(values, starts[:-1])
    return matrix, (np.arange(ROWS), starts.astype("i8"), columns.astype("u4")), (values, totals), size


@pytest.mark.parametrize("kind", ["in order", "with gaps", "anyhow", "few"])
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_large_matrices_are_scipys_product(kind, data):
    """Any number of planes, which lie one behind the other or side by side, of any type."""
    matrix, rows, weights, size = many_links(kind, data.draw(st.integers(0, 9)))
    planes, steps, dtype = (data.draw(own) for own in (st.integers(1, 19), st.integers(1, 6), st.sampled_from(TYPES)))
    beside, seed = data.draw(st.booleans()), data.draw(st.integers(0, 99))
    values = np.random.default_rng(seed).integers(0, 100, (steps, planes, size)).astype(dtype)
    fill = data.draw(st.sampled_from([None, 7]))
    known = np.where(values == fill, np.nan, values.astype("f8")) if fill is not None else values.astype("f8")
    if dtype.kind == "f" and data.draw(st.booleans()):
        known[:, -1, ::3] = np.nan
        values[:, -1, ::3] = np.nan
    links = Links(*rows, planes if beside else 1, *weights)
    offsets = np.arange(planes, dtype="i8") * (1 if beside else size)
    blocks = [np.ascontiguousarray(step.T if beside else step).reshape(-1) for step in values]
    marks = None if fill is None else np.array(fill, dtype)
    found, (averaged, steady) = links.apply(blocks, offsets, marks), links.apply_to_mean(blocks, offsets, marks)
    valid = np.isfinite(known)
    for step, plane in np.ndindex(steps, planes):
        own, there = known[step, plane], valid[step, plane]
        np.testing.assert_allclose(found[step, 0, plane], matrix @ np.where(there, own, 0), rtol=1e-12)
        np.testing.assert_allclose(found[step, 1, plane], matrix @ there.astype("f8"), rtol=1e-12)
    needed = np.unique(matrix.indices)
    constant = (valid[:, :, needed].all(axis=0) | ~valid[:, :, needed].any(axis=0)).all(axis=-1)
    assert not (steady & ~constant).any()
    assert steady.all() or fill is not None
    np.testing.assert_allclose(averaged[0, steady], found[:, 0, steady].mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(averaged[1, steady], found[0, 1, steady], rtol=1e-12)


def test_only_the_levels_where_values_come_and_go_are_remapped_step_by_step():
    """Those that go along with one, eight at a time."""
    _, rows, weights, size = many_links("in order", 1)
    values = np.random.default_rng(2).normal(280, 10, (3, 20, size)).astype("f4")
    values[:, 19, ::7] = np.nan
    values[1, 9, -1] = np.nan
    links, offsets = Links(*rows, 1, *weights), np.arange(20, dtype="i8") * size
    found, steady = links.apply_to_mean([step.reshape(-1) for step in values], offsets, None)
    assert steady.tolist() == [True] * 8 + [False] * 4 + [True] * 8
    wanted = links.apply([step.reshape(-1) for step in values], offsets, None)
    np.testing.assert_allclose(found[0, steady], wanted[:, 0, steady].mean(axis=0), rtol=1e-13)
    np.testing.assert_allclose(found[1, steady], wanted[0, 1, steady], rtol=1e-13)


def test_a_sum_that_is_too_large_is_not_taken_for_the_mean():
    _, rows, weights, size = many_links("in order", 1)
    links = Links(*rows, 1, weights[0], weights[1])
    blocks = [np.full(size, 1.2e308 / weights[1].max())] * 2
    assert not links.apply_to_mean(blocks, np.zeros(1, "i8"), None)[1].any()
    assert np.isfinite(links.apply(blocks, np.zeros(1, "i8"), None)).all()


CONFIG = {"of": "tas", "space": {"remapnn": "r4x2"}, "operators": ["mean", "count"]}


@pytest.mark.parametrize(("more", "takes"), [
    ({}, True),
    ({"of": "sqrt(u**2 + v**2)"}, True),
    ({"operators": [{"mean": {"min_count": 3}}, {"sum": {"skipna": False}}]}, True),
    ({"each": {"day": "mean"}, "operators": ["max"]}, True),
    ({"space": [{"mask": "land"}, {"remapnn": "r4x2"}, "fldmean"]}, True),
    ({"space": "fldmean"}, False),
    ({"space": [{"remapnn": "r4x2"}, "fldmax"]}, False),
    ({"operators": ["mean", "max"]}, False),
    ({"each": {"day": "max"}, "operators": ["mean"]}, False),
    ({"transforms": ["cumsum"]}, False),
    ({"then": "value > 3"}, False),
    ({"operators": ["mean", {"filter": {"above": 3}}]}, False),
])  # fmt: skip
def test_means_are_taken_where_nothing_needs_each_step(more, takes):
    [diagnostic] = parse_diagnostics({"tas": CONFIG | more}, ["run"]).values()
    assert (diagnostic.takes_means and diagnostic.space.takes_means) == takes
