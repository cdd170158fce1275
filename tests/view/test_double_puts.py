"""Where a step has several Puts of the same points, all readers have the last ones, as BP5 does."""

from dataclasses import dataclass

import adios2
import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from bbflow import start_nodes
from bbflow.configuring.step_time import TimeConfig
from bbflow.drain.rescuing import Rescue
from bbflow.errors import BbflowError
from bbflow.net.contact import read_contact
from bbflow.stream.puts import points_of, seen
from bbflow.view.consumers import RESCUE, Consumers
from testsupport.programs import Part, run_program, write_program

SHAPE = (4, 6)


@dataclass(frozen=True)
class Region:
    start: tuple[int, ...]
    count: tuple[int, ...]
    rank: int = 0
    shape: tuple[int, ...] = SHAPE

    @property
    def slices(self):
        return tuple(slice(at, at + size) for at, size in zip(self.start, self.count, strict=True))


@st.composite
def regions(draw):
    ends = [draw(st.tuples(st.integers(0, size), st.integers(0, size)).map(sorted)) for size in SHAPE]
    return Region(tuple(a for a, _ in ends), tuple(b - a for a, b in ends), draw(st.integers(0, 2)))


@given(st.lists(regions(), min_size=1, max_size=6))
def test_what_is_left_of_any_puts_is_what_writing_them_in_their_order_leaves(puts):
    whole = np.full(SHAPE, -1)
    for number, region in sorted(enumerate(puts), key=lambda item: item[1].rank):
        whole[region.slices] = number
    left = np.full(SHAPE, -1)
    found = seen(list(enumerate(puts)))
    for number, region in found:
        left[region.slices] = number
    np.testing.assert_array_equal(left, whole)
    assert points_of([region for _, region in found]) == (whole >= 0).sum()
    found = [(number, region) for number, region in found if all(region.count)]
    for at, (_, region) in enumerate(found):
        assert not any((inside(region) <= inside(later)).all() for _, later in found[at + 1 :])


def inside(region):
    whole = np.zeros(SHAPE, bool)
    whole[region.slices] = True
    return whole


def rows(first, end, value):
    return Part(np.full((end - first, SHAPE[1]), float(value)), SHAPE, (first, 0))


def puts_of(step, rank):
    """A whole array corrected, its parts corrected, an array that all ranks Put whole, single values, and an edge."""
    own = [("corrected", rows(2 * rank, 2 * rank + 2, value)) for value in (100, 280 + step + rank)]
    own += [("by_all", rows(0, 4, 10 * rank + step)), ("one", 5.0 + rank), ("one", 7.0 + step)]
    own += [("part_first", rows(1, 2, 3)), ("part_first", rows(0, 4, step))] if rank == 0 else []
    return own


def bp5(folder, ranks):
    """What BP5 makes of it: one process Puts what all ranks do, in their order."""
    io = adios2.Adios().declare_io("bp")
    known = {}
    with adios2.Stream(io, str(folder / "model.bp"), "w") as stream:
        for step in zip(*ranks, strict=True):
            stream.begin_step()
            for name, what in (item for own in step for item in own):
                if isinstance(what, Part):
                    stream.write(name, what.values, list(what.shape), list(what.start), list(what.values.shape))
                else:
                    known.setdefault(name, []).append(what)
            stream.end_step()
    names = ("corrected", "by_all", "part_first")
    one = adios2.Adios().declare_io("one")
    one.set_engine("BP5")
    one.set_parameter("Threads", "1")  # several ones race for points that were Put twice
    with adios2.FileReader(one, str(folder / "model.bp")) as file:
        return {name: file.read(name, step_selection=[0, len(ranks[0])]).reshape(-1, *SHAPE) for name in names}


@pytest.mark.parametrize("nodes", [1, 2])
def test_results_and_raw_steps_have_what_bp5_has(tmp_path, nodes):
    ranks = [[puts_of(step, rank) for step in range(4)] for rank in range(2)]
    right = bp5(tmp_path, ranks)
    operators = {name: ["mean", "max"] for name in (*right, "one")}
    ran = run_program(tmp_path, ranks, {"operators": operators, "raw": {"variables": [*right, "one"]}}, nodes=nodes)
    assert ran.outcome.complete
    with xr.open_zarr(ran.output / "raw.zarr") as raw:
        for name, values in right.items():
            np.testing.assert_array_equal(raw[name], values)
            np.testing.assert_array_equal(ran.results[f"{name}_run_mean"][0], values.mean(axis=0))
            np.testing.assert_array_equal(ran.results[f"{name}_run_max"][0], values.max(axis=0))
        np.testing.assert_array_equal(raw.one, [7, 8, 9, 10])
    assert ran.results.one_run_mean[0] == 8.5


def test_a_condition_looks_at_what_was_put_last(tmp_path):
    hidden = [[[("x", rows(0, 4, 100)), ("x", rows(0, 4, step))] for step in range(4)]]
    edge = [[[("x", rows(0, 4, step)), ("x", rows(0, 1, -step))] for step in range(4)]]
    for name, ranks, when, kept in (("hidden", hidden, "max(x) > 2.5", [3]), ("edge", edge, "mean(x) > 1.2", [3])):
        (tmp_path / name).mkdir()
        config = {"operators": {"y": {"of": "x", "operators": ["max"]}} if name == "hidden" else {"one": ["max"]}}
        ranks = [[[*puts, ("one", 1.0)] for puts in own] for own in ranks]
        ran = run_program(tmp_path / name, ranks, config | {"raw": {"variables": ["x"], "when": when}})
        with xr.open_zarr(ran.output / "raw.zarr", decode_times=False) as raw:
            np.testing.assert_array_equal(raw.bbflow_step if "bbflow_step" in raw else raw.step, kept)


def edges(step, rank):
    half = rows(2 * rank, 2 * rank + 2, step)
    return [("x", half), ("x", rows(rank, 1 + 2 * rank, 10 + rank))]


EDGES = [[edges(step, rank) for step in range(3)] for rank in range(2)]


def test_a_view_and_a_rescue_have_what_was_put_last_in_parts_too(tmp_path):
    right = np.array([[[10] * 6, [11] * 6, [11] * 6, [step] * 6] for step in range(3)])
    with start_nodes(2, "4MiB") as nodes:
        Consumers(read_contact(nodes.contact), "model", [RESCUE]).close()
        write_program(tmp_path, EDGES, nodes.contact)
        with xr.open_dataset(nodes.contact, engine="bbflow", stream="model") as view:
            np.testing.assert_array_equal(view.x, right)
        rescued = Rescue(nodes.contact, "model", tmp_path / "out", TimeConfig()).run()
    with xr.open_zarr(rescued.store) as raw:
        np.testing.assert_array_equal(raw.x, right)


def test_results_of_parts_that_were_put_again_are_refused(tmp_path):
    with pytest.raises(BbflowError, match="overlap, so some points would count twice"):
        run_program(tmp_path, EDGES, {"operators": {"x": ["mean"]}})
