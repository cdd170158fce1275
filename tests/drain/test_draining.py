"""The drain's work is parted among hosts, and single values are written by the one who knows all steps."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from bbflow.configuring.settings import Config, RawConfig
from bbflow.drain.drain_task import DrainWork, drain_steps, together
from bbflow.drain.draining import LEAST_BYTES, MOST_BYTES, Draining, RawStep
from bbflow.drain.forms import Form
from bbflow.drain.raw import RawStore
from bbflow.drain.stores import left_out_of
from bbflow.errors import ConfigError
from bbflow.landing.embedded import EmbeddedNodes
from bbflow.net.contact import read_contact
from bbflow.operators.conditions import parse_condition
from bbflow.stream.cf import StreamAttributes
from bbflow.stream.dtypes import DTYPES
from bbflow.stream.records import BlockForm, Layout, Step
from bbflow.view.layout import FILLS
from testsupport.writers import steps_of, watch, write, write_config

FORMS = st.lists(
    st.builds(Form, st.text("uvwT_"), st.just(np.dtype("f4")), st.just((2,)), st.integers(1, 7), st.just(np.nan)),
    max_size=5,
)


@given(st.integers(0, 3), st.lists(st.integers(0, 99), max_size=30), FORMS, st.integers(1, 5), st.booleans())
def test_the_parts_of_a_batch_are_all_its_rows_in_files_that_nobody_else_writes(start, numbers, forms, shares, dedup):
    forms = tuple({form.name: replace(form, dedup=dedup) for form in forms}.values())
    work = DrainWork("raw.zarr", start, tuple(numbers), ((),) * len(numbers), forms, Path("contact.json"), "model")
    parts = work.parts(shares)
    assert len(parts) <= shares
    for form in forms:
        files = [index for part in parts for index in part.rows(form)]
        rows = [row for part in parts for some in part.rows(form).values() for row in some]
        assert len(files) == len(set(files))
        assert sorted(rows) == [*range(start, start + len(numbers))]
        assert all(form.owner(index, shares) == part.share for part in parts for index in part.rows(form))


def raw_steps(nodes, steps):
    """Return a node's steps as the drain gets them; their times are their numbers."""
    (node,) = read_contact(nodes.contact)
    return [RawStep(step.number, float(step.number), {node.name: step}) for step in steps]


def open_draining(folder, contact=Path("contact.json"), **raw):
    draining = Draining(Config("model", {}, raw=RawConfig(**raw)), contact, {})
    draining.open(folder / "raw.zarr", StreamAttributes({}), {})
    return draining


VALUES = {"co2": "double", "index": "int32_t"}


def test_a_single_value_that_a_step_lacks_is_missing_there(tmp_path):
    draining = open_draining(tmp_path)
    forms = {name: BlockForm(name, dtype, "GlobalValue", (), (), (), 0) for name, dtype in VALUES.items()}
    steps = [
        RawStep(
            4 * row, float(row), {"bb0": Step(4 * row, Layout.of(tuple(forms[name] for name in own)), values=values)}
        )
        for row, (own, values) in enumerate([(["co2", "index"], (280.5, 7)), (["index"], (7,)), (["co2"], (281.0,))])
    ]
    for some in (steps[:2], steps[2:]):
        batch = draining.next_batch(some, some[-1].number, 1)
        assert batch.works == ()
        draining.take(batch)
    raw = xr.open_zarr(tmp_path / "raw.zarr")
    assert raw.bbflow_step.values.tolist() == [0, 4, 8]
    np.testing.assert_array_equal(raw.co2.values, [280.5, np.nan, 281.0])
    np.testing.assert_array_equal(raw["index"].values, [7, 7, np.nan])


def test_a_store_whose_steps_lie_along_another_axis_is_refused(tmp_path):
    path = tmp_path / "raw.zarr"
    RawStore(path, RawConfig(), StreamAttributes({}), None)
    with pytest.raises(ConfigError, match="has its steps along 'bbflow_step', not 'time': give another output"):
        RawStore(path, RawConfig(), StreamAttributes({}), ("time", {}))


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
        draining = open_draining(tmp_path, nodes.contact, shard=2 * 6 * 8)
        batch = draining.next_batch(raw_steps(nodes, steps_of(watch(nodes))), 4, shares)
        with ThreadPoolExecutor(shares) as pool:
            assert together(pool.map(drain_steps, batch.works)).bytes == 5 * 6 * 8
    draining.take(batch)
    expected = np.arange(6) + 10.0 * np.arange(5)[:, None]
    np.testing.assert_array_equal(xr.open_zarr(tmp_path / "raw.zarr")["field"].values, expected)


LATE = """
variables = {name: io.define_variable(name, np.empty(0), [6], [0], [6], True) for name in ("field", "late")}
number = io.define_variable("number", np.array([0]))
engine = io.open("out", Mode.Write)
for step in range(5):
    engine.begin_step()
    for name in ("field", "late") if step > 2 else ("field",):
        engine.put(variables[name], np.arange(6) + 10.0 * step, Mode.Sync)
    engine.put(number, np.array([step]), Mode.Sync)
    engine.end_step()
engine.close()
"""


def test_readers_see_nothing_of_a_batch_that_is_begun_before_the_last_one_counts(tmp_path):
    with EmbeddedNodes(1, 1 << 18) as nodes:
        write(nodes.contact, LATE, write_config(tmp_path))
        draining = open_draining(tmp_path, nodes.contact)
        held = raw_steps(nodes, steps_of(watch(nodes)))
        batches = [draining.next_batch(held[begin:end], end - 1, 1) for begin, end in ((0, 3), (3, 5))]
        assert (draining.cursor, draining.reached) == (-1, 4)
        for batch in batches:
            for work in batch.works:
                drain_steps(work)
    expected = np.arange(6) + 10.0 * np.arange(5)[:, None]
    with pytest.raises(AssertionError, match="steps up to 2 come before those up to 4"):
        draining.take(batches[1])
    for batch, shown in zip(batches, (3, 5), strict=True):
        draining.take(batch)
        assert (draining.cursor, draining.count) == (shown - 1, shown)
        raw = xr.open_zarr(tmp_path / "raw.zarr")
        assert raw.number.values.tolist() == list(range(shown))
        np.testing.assert_array_equal(raw["field"].values, expected[:shown])
        np.testing.assert_array_equal(raw["late"].values[:3], np.full((3, 6), np.nan))
        np.testing.assert_array_equal(raw["late"].values[3:], expected[3:shown])


HOLES = """
names = ("always", "late", "named", "part", "real")
types = {"real": "f8"}
variables = {
    name: io.define_variable(name, np.empty(0, types.get(name, "i4")), [6], [0], [3 if name == "part" else 6], True)
    for name in names
}
number = io.define_variable("number", np.array([0], "i8"))
engine = io.open("out", Mode.Write)
for step in range(5):
    engine.begin_step()
    for name in ("always", "late", "part") if step > 2 else ("always", "named", "real", "part"):
        count = 3 if name == "part" else 6
        engine.put(variables[name], np.full(count, step, types.get(name, "i4")), Mode.Sync)
    if step != 1:
        engine.put(number, np.array([step], "i8"), Mode.Sync)
    engine.end_step()
engine.close()
"""


@pytest.mark.parametrize("cuts", [(0, 5), (0, 3, 5), (0, 1, 2, 4, 5)])
@pytest.mark.parametrize(
    "raw",
    [
        {},
        {"shard": 1},
        {"dedup": True, "compression": "zstd", "keep_bits": 20},
        {"chunks": {"time": 2}},
        {"chunks": {f"{name}_dim0": 4 for name in ("always", "late", "named", "part", "real")}, "compression": "zstd"},
        {"chunks": {"time": 3, "always_dim0": 2, "part_dim0": 5, "real_dim0": 1}, "keep_bits": 20},
    ],
)
def test_what_is_missing_of_integers_is_masked_and_they_are_integers_without_that(tmp_path, cuts, raw):
    with EmbeddedNodes(1, 1 << 18) as nodes:
        write(nodes.contact, HOLES, write_config(tmp_path))
        draining = Draining(Config("model", {}, raw=RawConfig(**raw)), nodes.contact, {})
        draining.open(tmp_path / "raw.zarr", StreamAttributes({"named/missing_value": [1e20, -5]}), {})
        held = raw_steps(nodes, steps_of(watch(nodes)))
        batches = [draining.next_batch(held[begin:end], end - 1, 1) for begin, end in pairwise(cuts)]
        for batch in batches:
            for work in batch.works:
                drain_steps(work)
            draining.take(batch)
    found = xr.open_zarr(tmp_path / "raw.zarr").load()
    steps, nan = np.arange(5.0), np.nan
    assert found.always.dtype == np.int32
    np.testing.assert_array_equal(found.always, np.broadcast_to(steps[:, None], (5, 6)))
    for name, expected in (
        ("late", [nan, nan, nan, 3, 4]),
        ("named", [0, 1, 2, nan, nan]),
        ("real", [0, 1, 2, nan, nan]),
    ):
        np.testing.assert_array_equal(found[name], np.broadcast_to(np.array(expected)[:, None], (5, 6)))
    np.testing.assert_array_equal(found.part[:, :3], np.broadcast_to(steps[:, None], (5, 3)))
    assert found.part[:, 3:].isnull().all()
    np.testing.assert_array_equal(found.number, [0, nan, 2, 3, 4])
    stored = xr.open_zarr(tmp_path / "raw.zarr", mask_and_scale=False)
    assert {name: int(stored[name][-1, -1]) for name in ("named", "part")} == {"named": -5, "part": FILLS["i4"]}
    assert int(stored.number[1]) == FILLS["i8"]


def array_of(size, *, dtype="float", rank=0, name="v"):
    return BlockForm(name, dtype, "GlobalArray", (size,), (rank,), (1,), rank, bytes=np.dtype(DTYPES[dtype]).itemsize)


def steps_of_forms(*steps):
    return [
        RawStep(number, float(number), {"bb0": Step(number, Layout.of(tuple(forms)), bytes(8))})
        for number, forms in enumerate(steps)
    ]


def test_what_has_two_forms_in_a_step_is_left_out_and_named(tmp_path):
    for number, other in enumerate((array_of(2, dtype="int32_t", rank=1), array_of(3, rank=1))):
        draining = open_draining(tmp_path / str(number))
        draining.take(draining.next_batch(steps_of_forms([array_of(2), other]), 0, 1))
        (line,) = draining.lacking
        assert line.startswith("v: float32 of shape (2,) from rank 0, and "), line
        assert line.endswith(" from rank 1, from step 0 on"), line


def test_what_changes_its_type_is_left_out_from_there_on_and_the_rest_is_kept(tmp_path):
    same, v, other = array_of(5, name="same"), array_of(3), array_of(3, dtype="double")
    steps = steps_of_forms([same, v], [same, v], [same, other], [same, v], [same])
    draining = open_draining(tmp_path)
    kept = []
    while steps:
        batch = draining.next_batch(steps, steps[-1].number, 1)
        draining.take(batch)
        kept.append((batch.numbers, {form.name for work in batch.works for form in work.forms}))
        steps = [step for step in steps if step.number > batch.through]
        if len(kept) == 1:  # and so it is for who goes on
            draining = open_draining(tmp_path)
    assert kept == [((0, 1), {"same", "v"}), ((2, 3, 4), {"same"})]
    left_out = ("v: float64 of shape (3,) after float32 of shape (3,), from step 2 on",)
    assert left_out_of(tmp_path / "raw.zarr") == left_out
    draining = open_draining(tmp_path)
    assert draining.next_batch(steps_of_forms([array_of(9)]), 9, 1).tabled == {}
    assert left_out_of(tmp_path / "raw.zarr") == left_out


def test_texts_are_drained_and_a_step_that_lacks_one_has_an_empty_one(tmp_path):
    draining = open_draining(tmp_path)
    text = BlockForm("said", "string", "GlobalValue", (), (), (), 0)
    own = [((text,), ("noon",)), ((), ()), ((text,), ("\u00fc" * 3000,))]
    steps = [
        RawStep(number, float(number), {"bb0": Step(number, Layout.of(forms), values=values)})
        for number, (forms, values) in enumerate(own)
    ]
    draining.take(draining.next_batch(steps, 2, 1))
    with xr.open_zarr(tmp_path / "raw.zarr") as raw:
        assert raw.said.values.tolist() == ["noon", "", "\u00fc" * 3000]


def test_two_variables_that_are_one_name_in_stores_are_not_mixed(tmp_path):
    draining = open_draining(tmp_path)
    steps = steps_of_forms([array_of(2, name="a/b"), array_of(2, name="a_x2F_b")])
    batch = draining.next_batch(steps, 0, 1)
    assert [form.name for work in batch.works for form in work.forms] == ["a/b"]
    draining.take(batch)
    assert left_out_of(tmp_path / "raw.zarr") == ("a_x2F_b: one name in stores with a/b, from step 0 on",)


def test_single_complex_values_are_drained(tmp_path):
    draining = open_draining(tmp_path)
    layout = Layout.of((BlockForm("z", "float complex", "GlobalValue", (), (), (), 0),))
    steps = [RawStep(step, 0.0, {"bb0": Step(step, layout, values=([step, 2.0],))}) for step in range(2)]
    draining.take(draining.next_batch(steps, 1, 1))
    assert xr.open_zarr(tmp_path / "raw.zarr").z.values.tolist() == [2j, 1 + 2j]


def test_a_type_that_zarr_lacks_is_kept_as_its_bytes(tmp_path):
    draining = open_draining(tmp_path)
    layout = Layout.of((BlockForm("v", "long double", "GlobalValue", (), (), (), 0),))
    steps = [RawStep(step, 0.0, {"bb0": Step(step, layout, values=(step + 0.5,))}) for step in range(2)]
    draining.take(draining.next_batch(steps, 1, 1))
    assert "v" not in xr.open_zarr(tmp_path / "raw.zarr")
    with xr.open_zarr(tmp_path / "raw.zarr", group="v_blocks") as table:
        assert table.value.values.view(np.longdouble).tolist() == [0.5, 1.5]
        assert table.step.values.tolist() == [0, 1]


REPEATS = """
names = ["mask", "sometimes", "always", "later"]
variables = {name: io.define_variable(name, np.empty(0), [6, 2], [0, 0], [6, 2], False) for name in names}
number = io.define_variable("number", np.array([0]))
engine = io.open("out", Mode.Write)
for step in range(9):
    engine.begin_step()
    values = {"mask": 7, "sometimes": step // 4, "always": step, "later": 5 if step not in (0, 1, 5) else None}
    for name, value in values.items():
        for half in range(2) if value is not None else ():
            # Rows follow one another in the file; columns must be put together.
            at, size = ([0, half], [6, 1]) if name == "always" else ([3 * half, 0], [3, 2])
            variables[name].set_selection([at, size])
            engine.put(variables[name], np.full(size, value, float), Mode.Sync)
    engine.put(number, np.array([step]), Mode.Sync)
    engine.end_step()
engine.close()
"""


@pytest.mark.parametrize("compression", ["none", "zstd"])
@pytest.mark.parametrize(("steps", "kept"), [(1, {"mask": 1, "sometimes": 3, "always": 9, "later": 2}), (4, None)])
@pytest.mark.parametrize("cuts", [(0, 9), (0, 1, 2, 6, 9), (0, 5, 9)])
def test_what_repeats_is_stored_once_and_reads_as_before(tmp_path, compression, steps, kept, cuts):
    with EmbeddedNodes(1, 1 << 18) as nodes:
        write(nodes.contact, REPEATS, write_config(tmp_path))
        raw = {"compression": compression, "dedup": True, "shard": steps * 6 * 2 * 8}
        draining = open_draining(tmp_path, nodes.contact, **raw)
        held, done = raw_steps(nodes, steps_of(watch(nodes))), []
        for begin, end in pairwise(cuts):
            batch = draining.next_batch(held[begin:end], end - 1, 2)
            done.append(together(map(drain_steps, batch.works)))
            draining.take(batch)
    path = tmp_path / "raw.zarr"
    found = xr.open_zarr(path).load()
    expected = {name: np.arange(9.0) for name in ("mask", "sometimes", "always", "later")}
    expected["mask"][:], expected["later"][:], expected["later"][[0, 1, 5]] = 7, 5, np.nan
    expected["sometimes"] = np.arange(9) // 4
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name].values, np.broadcast_to(values[:, None, None], (9, 6, 2)))
    assert found.number.values.tolist() == list(range(9))
    total = together(done)
    field = 6 * 2 * 8
    assert total.bytes == (3 * 9 + 6) * field
    files = {name: {path.stat().st_ino for path in (path / name).glob("c.*")} for name in expected}
    if kept is not None:
        assert {name: len(inodes) for name, inodes in files.items()} == kept
        assert total.repeated_bytes == total.bytes - sum(kept.values()) * field
    else:
        # In files of four steps: one in each of three, 0 0 0 0|1 1 1 1|2, all, and - - 5 5|5 - 5 5|5.
        assert total.repeated_bytes == total.bytes - (3 + 3 + 9 + 4) * field
        assert all(len(inodes) == 3 for inodes in files.values())
    if compression == "none":
        assert total.stored_bytes == total.bytes - total.repeated_bytes


SIZES = st.lists(st.sampled_from([0, 1, 1 << 20, 20 << 20, 300 << 20]), min_size=1, max_size=200)


@given(SIZES, st.integers(1, 5))
def test_a_batch_is_the_oldest_steps_of_bounded_size(sizes, every):
    draining = Draining(Config("model", {}, raw=RawConfig(every=every)), Path("contact.json"), {})
    some = draining.some(range(len(sizes)), sizes.__getitem__)
    kept = [sizes[number] for number in range(0, len(sizes), every)]
    assert some == list(range(len(some)))
    assert some
    own = [sizes[number] for number in some if number % every == 0]
    limit = min(max(sum(kept) // 4, LEAST_BYTES), MOST_BYTES)
    assert sum(own) <= limit or sum(size > 0 for size in own) == 1
    assert len(some) == len(sizes) or sum(own) + sizes[len(some)] > limit


def test_a_drain_that_goes_on_knows_the_last_step_for_which_the_condition_held(tmp_path):
    with EmbeddedNodes(1, 1 << 18) as nodes:
        write(nodes.contact, WRITE, write_config(tmp_path))
        raw = {"when": parse_condition("max(field) == 25"), "after": 2}
        held = raw_steps(nodes, steps_of(watch(nodes)))
        draining = open_draining(tmp_path, nodes.contact, **raw)
        for step in held[:3]:
            draining.choosing.look_at(step.number, step.parts)
        batch = draining.next_batch([step for step in held[:3] if draining.keeps(step.number)], 2, 1)
        together(map(drain_steps, batch.works))
        draining.take(batch)
        again = open_draining(tmp_path, nodes.contact, **raw)
        assert again.count == 1
        assert [again.keeps(number) for number in (3, 4, 5)] == [True, True, False]
