"""What a process maps and opens for a stream goes with it."""

import gc
import os
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from bbflow import start_nodes
from bbflow.store.pool import create_pool, forget_pools, map_pool
from testsupport.writers import write, write_config

STEPS = """
with adios2.Stream(io, "out", "w") as stream:
    for step in stream.steps(6):
        stream.write("time", float(stream.current_step()))
        stream.write("tas", np.full((40, 60), stream.current_step(), "f4"), [40, 60], [0, 0], [40, 60])
"""


def held(folder):
    """Mappings of files in a folder, and descriptors of any."""
    gc.collect()
    maps = Path("/proc/self/maps").read_text().splitlines()
    return [line.split(None, 5)[5] for line in maps if str(folder) in line], len(os.listdir("/proc/self/fd"))


def analyse(folder, number):
    """Fold a short run on nodes of its own, in this process."""
    config = {"stream": "model", "output": str(folder / f"out{number}"), "operators": {"tas": ["mean", "max"]}}
    config |= {"windows": ["run"], "time": "steps", "raw": "all", "workers": {"processes": 0, "threads": 1}}
    with start_nodes(1, "16MiB") as buffer:
        with buffer.analyse(config) as analysis:
            write(buffer.contact, STEPS, write_config(folder))
            assert analysis.wait(100).complete
        assert held(buffer.contact.parent)[0] == []


def test_nothing_of_an_analysis_stays_mapped_or_open(tmp_path):
    analyse(tmp_path, 0)  # what is made once in a process
    descriptors = held(tmp_path)[1]
    for number in range(1, 4):
        analyse(tmp_path, number)
    assert held(tmp_path)[1] <= descriptors


def test_a_view_s_pool_stays_until_it_is_closed_and_no_array_looks_at_it(tmp_path):
    with start_nodes(1, "4MiB") as buffer:
        write(buffer.contact, STEPS, write_config(tmp_path))
        view = xr.open_dataset(buffer.contact, engine="bbflow", stream="model")
        values = view.tas[2].values
        assert len(held(buffer.contact.parent)[0]) == 1
        view.close()
        assert len(held(buffer.contact.parent)[0]) == 1
        np.testing.assert_array_equal(values, 2)
        del values, view
        assert held(buffer.contact.parent)[0] == []


def test_a_view_that_nobody_has_any_more_is_closed(tmp_path):
    with start_nodes(1, "4MiB") as buffer:
        write(buffer.contact, STEPS, write_config(tmp_path))
        view = xr.open_dataset(buffer.contact, engine="bbflow", stream="model")
        assert view.tas[2].mean() == 2
        del view
        assert held(buffer.contact.parent)[0] == []


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_pool_that_is_gone_or_another_file_is_not_kept(tmp_path, is_replaced):
    pool = tmp_path / "pool"
    create_pool(pool, 4096)
    first = map_pool(str(pool))
    assert map_pool(str(pool)) is first
    pool.unlink()
    if is_replaced:
        create_pool(pool, 8192)
        assert len(map_pool(str(pool))) == 8192
    forget_pools()
    del first
    assert len(held(tmp_path)[0]) == is_replaced
    forget_pools([str(pool)])
    assert held(tmp_path)[0] == []
