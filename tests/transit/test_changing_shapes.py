"""A variable whose shape changes has statistics of all of each step; those of its points end."""

import os
import subprocess
import sys
from contextlib import ExitStack

import bbflow_adios2
import numpy as np
import pytest
import xarray as xr

from bbflow import start_nodes
from bbflow.errors import ConfigError
from bbflow.operators.configured import parse_diagnostics
from bbflow.operators.space import parse_space
from bbflow.operators.space.regridding import place_space
from bbflow.operators.steps import Steps
from bbflow.operators.windows.calendars import STEP_CLOCK
from bbflow.stream.cf import StreamAttributes
from bbflow.stream.records import Block
from bbflow.transit.output.fields import check_shape, field_of

OF_ONE_SHAPE = [
    {"mean": ["lon"]}, {"coarsen": {"row": 2}}, {"isel": {"row": [0, 2]}}, {"select": {"row": [1]}},
    {"box": {"row": [0, 2]}}, {"mask": "land > 0", "mean": ["row"]}, {"sum": ["row"], "weights": "land"},
    {"isel": {"row": [0, 1, 2, 3]}, "mean": ["row"]}, {"box": {"row": [0, 3]}, "max": ["row", "lon"]},
]  # fmt: skip
OF_ANY_LENGTH = [
    {"mean": ["row"]}, {"sum": ["row"]}, {"min": ["row"]}, {"max": ["row", "lon"]},
    {"box": {"lon": [0, 1]}, "mean": ["row"]}, {"isel": {"lon": 2}, "sum": ["row"]},
]  # fmt: skip
FIELDS = [
    {"of": "x", "operators": ["mean"]},
    {"of": "x * 2 + x", "operators": ["max"]},
    {"of": "x", "each": {"steps": 2, "operator": "mean"}, "operators": ["mean"]},
    {"of": "x", "operators": [{"filter": {"above": 3}}]},
]
WRITER = """
import sys
import adios2
import numpy as np
from adios2.bindings import Mode

rank, ranks, lengths = int(sys.argv[2]), int(sys.argv[3]), eval(sys.argv[4])
io = adios2.Adios(sys.argv[1]).declare_io("fields")
one = io.define_variable("x", np.zeros(1), [1], [0], [1])
two = io.define_variable("table", np.zeros(1, np.float32), [1, 3], [0, 0], [1, 3])
engine = io.open("fields", Mode.Write)
for step, length in enumerate(lengths):
    values = np.random.default_rng(step).normal(size=(length, 3)).astype(np.float32)
    first, end = (length * part // ranks for part in (rank, rank + 1))
    engine.begin_step()
    for variable, own in ((one, values[:, 0].astype(float)), (two, values)):
        variable.set_shape(list(own.shape))
        variable.set_selection([[first, *[0] * (own.ndim - 1)], [end - first, *own.shape[1:]]])
        engine.put(variable, own[first:end].copy(), Mode.Sync)
    engine.end_step()
engine.close()
"""


def block(rows):
    return Block("x", "double", "GlobalArray", (rows, 3), (0, 0), (rows, 3))


def test_a_changed_shape_is_told_in_the_names_that_the_configuration_has():
    attributes = StreamAttributes({"a/b/_ARRAY_DIMENSIONS": ["my/rows"]})
    (diagnostic,) = parse_diagnostics({"a/b": ["mean"]}, ["run"]).values()
    known, now = (
        field_of(
            diagnostic, {"a/b": Block("a/b", "double", "GlobalArray", (n,), (0,), (n,))}, attributes, {}, STEP_CLOCK
        )
        for n in (4, 5)
    )
    assert known.dims == ("my_x2F_rows",)
    with pytest.raises(ConfigError, match=r"the shape of a/b changed.*mean: \[my/rows\]"):
        check_shape(known, now)


def field_with_rows(of, space, rows):
    """Return the field of some rows in a space that is found in four."""
    attributes = StreamAttributes({"x/_ARRAY_DIMENSIONS": ["row", "lon"]})
    coordinates = {"row": np.arange(4.0), "lon": np.arange(3.0)}
    content = {key: value for key, value in of.items() if key != "each"} | {"space": space}
    content |= {"each": {"window": {"steps": 2}, "operator": "mean"}} if "each" in of else {}
    (diagnostic,) = parse_diagnostics({"v": content}, ["run"]).values()
    placement = place_space(diagnostic.space, ("row", "lon"), (4, 3), coordinates, lambda _: np.ones((4, 3)))
    return field_of(diagnostic, {"x": block(rows)}, attributes, {diagnostic.key: placement}, STEP_CLOCK), placement


@pytest.mark.parametrize("of", FIELDS, ids=lambda item: item["of"])
def test_a_field_of_points_that_are_chosen_or_kept_is_of_one_shape(of):
    for space in OF_ONE_SHAPE:
        field, placement = field_with_rows(of, space, 4)
        assert field.shape == placement.shape
        for rows in (3, 5):
            with pytest.raises(ConfigError, match=rf"of v changed from \(4, 3\) to \({rows}, 3\).*mean: \[row\]"):
                field_with_rows(of, space, rows)


@pytest.mark.parametrize("of", FIELDS, ids=lambda item: item["of"])
def test_a_field_in_which_a_dimension_is_reduced_as_a_whole_is_of_any_length_of_it(of):
    for space in OF_ANY_LENGTH:
        for rows in (3, 4, 5):
            field, placement = field_with_rows(of, space, rows)
            assert field.shape == placement.shape


@pytest.mark.parametrize("length", [1, 3, 6])
def test_a_space_of_another_length_gives_what_numpy_does(length):
    values = np.random.default_rng(length).normal(size=(length, 3))
    space = parse_space({"isel": {"lon": [2, 0]}, "mean": ["row"]})
    found = place_space(space, ("row", "lon"), (4, 3), {}, lambda _: np.ones(0)).of_shape((length, 3))
    parts = [
        (local, local.partial(Steps([values[first:end].reshape(-1)])))
        for first, end in ((0, 1), (1, length))
        if end > first and (local := found.local((first, 0), (end - first, 3))) is not None
    ]
    np.testing.assert_allclose(found.finish(found.assemble(1, parts))[0], values[:, [2, 0]].mean(axis=0))


def run(tmp_path, operators, lengths, ranks):
    """Fold what ranks write in steps of some lengths; gives the results."""
    (tmp_path / "writer.py").write_text(WRITER)
    (tmp_path / "engine.xml").write_text(bbflow_adios2.engine_xml("fields"))
    config = {"stream": "fields", "output": str(tmp_path / "out"), "windows": ["run"], "time": "steps"}
    config |= {"operators": operators, "workers": {"processes": 0, "threads": 1}}
    with ExitStack() as stack:
        burst_buffer = stack.enter_context(start_nodes(1, "16MiB"))
        analysis = stack.enter_context(burst_buffer.analyse(config))
        environment = os.environ | bbflow_adios2.environment(burst_buffer.contact) | {"PMI_SIZE": str(ranks)}
        words = [sys.executable, tmp_path / "writer.py", tmp_path / "engine.xml"]
        writers = [
            subprocess.Popen([*words, str(rank), str(ranks), str(lengths)], env=environment | {"PMI_RANK": str(rank)})
            for rank in range(ranks)
        ]
        assert [writer.wait(120) for writer in writers] == [0] * ranks
        analysis.wait(120)
    return xr.open_zarr(tmp_path / "out" / "results.zarr")


LENGTHS = [20, 20, 21, 25, 20, 3, 3, 40]


@pytest.mark.parametrize("ranks", [1, 2])
def test_statistics_of_all_rows_of_each_step_go_on_while_rows_come_and_go(tmp_path, ranks):
    rows = {"mean": "mean", "sum": "sum", "least": "min", "most": "max"}
    operators = {
        name: {"of": "x", "space": {how: ["x_dim0"]}, "operators": ["mean", "std", "last"]}
        for name, how in rows.items()
    }
    operators |= {
        "columns": {"of": "table", "space": {"max": ["table_dim0"]}, "operators": ["max", "mean"]},
        "speed": {"of": "where(x > 0, x, nan)", "space": {"mean": ["x_dim0"]}, "operators": ["max"]},
        "there": {"of": "x == x", "space": {"sum": ["x_dim0"]}, "operators": ["mean", "max"]},
        "smooth": {
            "of": "x", "space": {"sum": ["x_dim0"]}, "each": {"window": {"steps": 4}, "operator": "max"},
            "operators": ["mean"],
        },
    }  # fmt: skip
    tables = [np.random.default_rng(at).normal(size=(length, 3)).astype("f4") for at, length in enumerate(LENGTHS)]
    own = [table[:, 0].astype(float) for table in tables]
    with run(tmp_path, operators, LENGTHS, ranks) as results:
        assert results.attrs["bbflow_status"] == "complete"
        for name, how in rows.items():
            wanted = np.array([getattr(values, how)() for values in own])
            for operator, value in (("mean", wanted.mean()), ("std", wanted.std()), ("last", wanted[-1])):
                np.testing.assert_allclose(results[f"{name}_run_{operator}"][0], value, rtol=1e-12)
        most = np.array([table.max(axis=0) for table in tables])
        np.testing.assert_allclose(results["columns_run_max"][0], most.max(axis=0))
        np.testing.assert_allclose(results["columns_run_mean"][0], most.mean(axis=0), rtol=1e-6)
        assert results["speed_run_max"][0] == max(values[values > 0].mean() for values in own)
        assert results["there_run_max"][0] == max(LENGTHS)
        assert results["there_run_mean"][0] == np.mean(LENGTHS)
        sums = [max(values.sum() for values in own[first : first + 4]) for first in (0, 4)]
        np.testing.assert_allclose(results["smooth_run_mean"][0], np.mean(sums))


def test_statistics_of_each_row_end_with_the_ones_that_can_be_had(tmp_path):
    with pytest.raises(ConfigError, match=r"of m changed from \(20,\) to \(21,\).*space: {mean: \[x_dim0\]}"):
        run(tmp_path, {"m": {"of": "x", "operators": ["mean"]}}, [20, 20, 21], 1)


def test_a_step_without_rows_is_missing(tmp_path):
    spaces = {"m": {"mean": ["x_dim0"]}, "n": {"sum": ["x_dim0"]}}
    operators = {name: {"of": "x", "space": space, "operators": ["mean", "count"]} for name, space in spaces.items()}
    own = [np.random.default_rng(at).normal(size=(length, 3))[:, 0].astype("f4") for at, length in ((0, 4), (2, 3))]
    with run(tmp_path, operators, [4, 0, 3], 2) as results:
        assert results["m_run_count"][0] == results["n_run_count"][0] == 2
        means, sums = (np.mean([getattr(values.astype(float), how)() for values in own]) for how in ("mean", "sum"))
        np.testing.assert_allclose([results["m_run_mean"][0], results["n_run_mean"][0]], [means, sums])
