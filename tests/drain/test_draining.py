"""The drain's work is parted among hosts, and single values are written by the one who knows all steps."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from writers import steps_of, watch, write, write_config

from bbflow.cf import StreamAttributes
from bbflow.config import RawConfig
from bbflow.drain.raw import DrainWork, RawStore, drain_steps
from bbflow.landing.contact import read_contact
from bbflow.landing.embedded import EmbeddedNodes
from bbflow.records import Block


@given(st.integers(0, 3), st.lists(st.integers(0, 99), max_size=30), st.integers(1, 5))
def test_the_parts_of_a_batch_are_all_its_steps_in_rows_that_nobody_else_writes(start, numbers, shares):
    steps = tuple((("bb1", Block(f"v{number}", "float", "GlobalArray")),) for number in numbers)
    work = DrainWork("raw.zarr", start, tuple(numbers), steps, Path("contact.json"), "model")
    parts = work.part(shares)
    assert len(parts) <= shares
    assert [(part.share, part.shares) for part in parts] == [(n, len(parts)) for n in range(len(parts))]
    assert [number for part in parts for number in part.numbers] == numbers
    assert tuple(step for part in parts for step in part.steps) == steps
    assert [part.start + n for part in parts for n in range(len(part.numbers))] == [*range(start, start + len(numbers))]


def test_a_single_value_that_a_step_lacks_is_missing_there(tmp_path):
    store = RawStore(tmp_path / "raw.zarr", RawConfig(), StreamAttributes({}), ("time", {}))
    co2, index = Block("co2", "double", "GlobalValue", value=280.5), Block("index", "int32_t", "GlobalValue", value=7)
    store.make_room(0, [[co2, index], [index]])
    store.commit(0, [0, 4], [0.0, 1.0])
    store.make_room(2, [[Block("co2", "double", "GlobalValue", value=281.0)]])
    store.commit(2, [8], [2.0])
    raw = xr.open_zarr(tmp_path / "raw.zarr")
    assert raw.bbflow_step.values.tolist() == [0, 4, 8]
    np.testing.assert_array_equal(raw.co2.values, [280.5, np.nan, 281.0])
    assert raw["index"].values.tolist() == [7, 7, 0]


WRITE = """
variable = io.define_variable("field", np.empty(0), [6], [0], [6], True)
engine = io.open("out", Mode.Write)
for step in range(5):
    engine.begin_step()
    engine.put(variable, np.arange(6) + 10.0 * step, Mode.Sync)
    engine.end_step()
engine.close()
"""


@pytest.mark.parametrize("shares", [1, 2, 3])
def test_tasks_side_by_side_write_what_one_task_writes(tmp_path, shares):
    with EmbeddedNodes(1, 1 << 18) as nodes:
        write(nodes.contact, WRITE, write_config(tmp_path))
        (node,) = read_contact(nodes.contact)
        steps = [tuple((node.name, block) for block in step.blocks) for step in steps_of(watch(nodes))]
        store = RawStore(tmp_path / "raw.zarr", RawConfig(), StreamAttributes({}), ("time", {}))
        store.make_room(0, [[block for _, block in placed] for placed in steps])
        work = DrainWork(str(store.path), 0, tuple(range(5)), tuple(steps), nodes.contact, "model")
        with ThreadPoolExecutor(shares) as pool:
            assert sum(pool.map(drain_steps, work.part(shares))) == 5 * 6 * 8
    store.commit(0, range(5), range(5))
    expected = np.arange(6) + 10.0 * np.arange(5)[:, None]
    np.testing.assert_array_equal(xr.open_zarr(store.path)["field"].values, expected)
