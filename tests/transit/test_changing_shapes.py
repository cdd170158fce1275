"""A variable whose shape changes ends its statistics, whatever is made of its points."""

import os
import subprocess
import sys
from contextlib import ExitStack

import bbflow_adios2
import numpy as np
import pytest

from bbflow import start_nodes
from bbflow.cf import StreamAttributes
from bbflow.errors import ConfigError
from bbflow.operators.diagnostic import parse_diagnostics
from bbflow.operators.windows.calendars import STEP_CLOCK
from bbflow.records import Block
from bbflow.transit.output.fields import field_of

SPACES = [
    {"mean": ["row"]}, {"sum": ["row"]}, {"min": ["row"]}, {"max": ["row", "lon"]}, {"mean": ["lon"]},
    {"coarsen": {"row": 2}}, {"isel": {"row": [0, 2]}}, {"select": {"row": [1]}}, {"box": {"row": [0, 2]}},
    {"mask": "land > 0", "mean": ["row"]}, {"sum": ["row"], "weights": "land"},
    {"box": {"lon": [0, 1]}, "mean": ["row"]},
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

rank, ranks, sign = int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
io = adios2.Adios(sys.argv[1]).declare_io("fields")
rows = io.define_variable("x", np.zeros(1), [1], [0], [1])
engine = io.open("fields", Mode.Write)
for step in range(8):
    values = np.arange(20.0 + sign * (step // 4))
    first, end = (len(values) * part // ranks for part in (rank, rank + 1))
    rows.set_shape([len(values)])
    rows.set_selection([[first], [end - first]])
    engine.begin_step()
    engine.put(rows, values[first:end].copy(), Mode.Sync)
    engine.end_step()
engine.close()
"""


def block(rows):
    return Block("x", "double", "GlobalArray", (rows, 3), (0, 0), (rows, 3))


@pytest.mark.parametrize("rows", [3, 5])
@pytest.mark.parametrize("of", FIELDS, ids=lambda item: item["of"])
def test_a_field_of_any_space_is_of_one_shape(of, rows):
    attributes = StreamAttributes({"x/_ARRAY_DIMENSIONS": ["row", "lon"]})
    coordinates = {"row": np.arange(4.0), "lon": np.arange(3.0)}
    for space in SPACES:
        content = {key: value for key, value in of.items() if key != "each"} | {"space": space}
        content |= {"each": {"window": {"steps": 2}, "operator": "mean"}} if "each" in of else {}
        (diagnostic,) = parse_diagnostics({"v": content}, ["run"]).values()
        placement = diagnostic.space.resolve(("row", "lon"), (4, 3), coordinates, lambda _: np.ones((4, 3)))
        placements = {diagnostic.key: placement}
        assert field_of(diagnostic, {"x": block(4)}, attributes, placements, STEP_CLOCK).shape == placement.shape
        with pytest.raises(ConfigError, match=rf"the shape of v changed from \(4, 3\) to \({rows}, 3\)"):
            field_of(diagnostic, {"x": block(rows)}, attributes, placements, STEP_CLOCK)


@pytest.mark.parametrize(("sign", "ranks"), [(1, 2), (-1, 1)])
def test_a_mean_over_a_dimension_that_changes_ends_with_the_error_that_all_points_give(tmp_path, sign, ranks):
    (tmp_path / "writer.py").write_text(WRITER)
    (tmp_path / "engine.xml").write_text(bbflow_adios2.engine_xml("fields"))
    config = {"stream": "fields", "output": str(tmp_path / "out"), "windows": ["run"], "time": "steps"}
    config |= {"operators": {"m": {"of": "x", "space": {"mean": ["x_dim0"]}, "operators": ["mean"]}}}
    config |= {"workers": {"processes": 0, "threads": 1}}
    with ExitStack() as stack:
        burst_buffer = stack.enter_context(start_nodes(1, "16MiB"))
        analysis = stack.enter_context(burst_buffer.analyse(config))
        environment = os.environ | bbflow_adios2.environment(burst_buffer.contact) | {"PMI_SIZE": str(ranks)}
        words = [sys.executable, tmp_path / "writer.py", tmp_path / "engine.xml"]
        writers = [
            subprocess.Popen([*words, str(rank), str(ranks), str(sign)], env=environment | {"PMI_RANK": str(rank)})
            for rank in range(ranks)
        ]
        assert [writer.wait(120) for writer in writers] == [0] * ranks
        with pytest.raises(ConfigError, match=rf"the shape of m changed from \(20,\) to \({20 + sign},\)"):
            analysis.wait(120)
