"""A coordinate of which no block has some points: these are missing in the stores, whatever its type."""

import numpy as np
import xarray as xr

from bbflow import start_nodes
from testsupport.writers import write, write_config

WRITER = """
io.define_attribute("named/missing_value", np.array([9], np.uint16))
names = {"named": np.uint16, "bare": np.int32, "real": np.float64}
variables = {name: io.define_variable(name, np.empty(0, kind), [5], [0], [1]) for name, kind in names.items()}
fields = {name: io.define_variable(f"of_{name}", np.empty(0), [5], [0], [5], True) for name in names}
for name in names:
    io.define_attribute(f"of_{name}/_ARRAY_DIMENSIONS", [name])
    io.define_attribute(f"{name}/_ARRAY_DIMENSIONS", [name])
engine = io.open("out", Mode.Write)
for step in range(2):
    engine.begin_step()
    for name, kind in names.items():
        for place in (0, 4):
            variables[name].set_selection([[place], [1]])
            engine.put(variables[name], np.array([place + 1], kind), Mode.Sync)
        engine.put(fields[name], np.arange(5.0), Mode.Sync)
    engine.end_step()
engine.close()
"""


def test_points_of_a_coordinate_that_no_block_has_are_missing(tmp_path):
    config = {"stream": "model", "output": str(tmp_path / "out"), "raw": "all", "windows": ["run"]}
    config |= {"operators": {f"of_{name}": ["mean"] for name in ("named", "bare", "real")}}
    with start_nodes(1, "1MiB") as nodes, nodes.analyse(config) as analysis:
        write(nodes.contact, WRITER, write_config(tmp_path))
        outcome = analysis.wait(100)
    assert outcome.complete, outcome.errors
    for name in ("results", "raw"):
        with xr.open_zarr(tmp_path / f"out/{name}.zarr") as store:
            for own in ("named", "bare", "real"):
                np.testing.assert_array_equal(store[own], [1, np.nan, np.nan, np.nan, 5], err_msg=f"{name} {own}")
