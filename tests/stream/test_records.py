import copy
import gc
import pickle
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, ValidationError, convert

from bbflow.errors import ProtocolError
from bbflow.landing.replies import ShownStep
from bbflow.reading.wire_types import Row
from bbflow.stream.dtypes import DTYPES
from bbflow.stream.layouts import LAYOUTS_KNOWN, Known, Layouts, joined
from bbflow.stream.records import BlockForm, Layout, Step

NONE = struct.pack("<2d", 1.0, 0.0)


def part_of(rank, number, first, *, spilled=None, low=1.0):
    """One rank's part of a step: a time, a field and a mask behind it."""
    where = {"rank": rank, "spilled": spilled is not None}
    layout = Layout.of(
        (
            BlockForm("time", "double", "GlobalValue", (), (), (), rank),
            BlockForm("t", "float", "GlobalArray", (4,), (2 * rank,), (2,), bytes=8, **where),
            BlockForm("m", "uint64_t", "LocalArray", (), (), (1,), place=64, bytes=8, **where),
        )
    )
    extremes = NONE + struct.pack("<2d", low, 2.0) + struct.pack("<2Q", 0, 2**64 - 1)
    sources, files = (b"", (spilled,)) if spilled else (struct.pack("<q", first), ())
    return Step(number, layout, sources, files, (number / 2,), extremes)


def step_at(number, *firsts, spilled=None):
    """A step of several ranks, the last of them in a file if one is given."""
    last = len(firsts) - 1
    parts = [
        part_of(rank, number, first, spilled=spilled if rank == last else None) for rank, first in enumerate(firsts)
    ]
    return Step.of_parts(number, parts)


def test_steps_that_lie_alike_have_the_same_layout_wherever_their_ranks_lie():
    first, second = step_at(0, 4096, 8192), step_at(1, 65536, 0)
    assert second.layout is first.layout
    assert np.frombuffer(second.sources, "<i8").tolist() == [65536, 0]
    assert second.values == (0.5, 0.5)


def test_a_spilled_part_is_another_layout():
    assert step_at(1, 4096, spilled="/pfs/s.1.0.spill").layout is not step_at(1, 4096).layout


def test_the_blocks_of_a_step_are_those_of_its_ranks():
    step = step_at(7, 8192, 4096, 0, spilled="/pfs/s.7.2.spill")
    assert [block.rank for block in step.blocks] == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert [(block.offset, block.file) for block in step.blocks if block.name == "m"] == [
        (8256, None),
        (4160, None),
        (64, "/pfs/s.7.2.spill"),
    ]
    time, field, mask, *_ = step.blocks
    assert (time.value, time.min, time.bytes) == (3.5, None, 0)
    assert (field.min, field.max, field.start, field.offset) == (1.0, 2.0, (0,), 8192)
    assert (mask.min, mask.max) == (0, 2**64 - 1)


def test_a_layout_knows_where_all_blocks_of_a_step_are():
    step = step_at(0, 4096, 8192)
    offsets = step.layout.offsets(step.sources)
    assert [int(offsets[at]) for at, form in enumerate(step.layout.forms) if form.bytes] == [4096, 4160, 8192, 8256]
    assert step.layout.lengths.tolist() == [0, 8, 8, 0, 8, 8]
    assert step.layout.reach == (72, 72)


def test_a_layout_that_comes_from_elsewhere_is_the_one_that_is_here():
    step = step_at(0, 4096)
    assert pickle.loads(pickle.dumps(step)).layout is step.layout
    assert copy.deepcopy(step).layout is step.layout
    assert pickle.loads(pickle.dumps(Layout.of(()))) is Layout.of(())
    assert Layout.from_wire(step.layout.to_wire()) is step.layout


def test_a_layout_that_nobody_has_is_forgotten():
    number = step_at(0, 4096).layout.number
    joined.cache_clear()
    gc.collect()
    assert step_at(0, 4096).layout.number != number


def test_a_step_of_single_values_has_no_source():
    step = Step(0, Layout.of((BlockForm("time", "double", "GlobalValue", (), (), (), 0),)), values=(0.5,))
    assert (step.bytes, step.layout.singles, step.layout.reach) == (0, (0,), ())
    assert [block.value for block in step.blocks] == [0.5]


ROW = ["v", "int8_t", "LocalArray", [], [], [4], 0, 0, 0, 4, False]
WRONG = {
    "a text for a count": {9: "4"},
    "a negative place": {8: -1},
    "a rank above 63 bits": {6: 1 << 63},
    "a place and length above 63 bits": {8: (1 << 63) - 2},
    "an extent that no block lies in": {7: 1},
    "a type that doesn't exist": {1: "int128_t"},
    "a shape of fractions": {5: [4.0]},
    "true for a number": {6: True},
    "a length that isn't its shape's": {9: 8},
    "texts with bytes": {1: "string"},
    "a number for the way": {10: 0},
    "a single value with a place": {9: 0, 8: 64},
}


def forms_of(rows):
    """Take forms in as they come over the wire."""
    try:
        return Layout.from_wire(convert(rows, tuple[Row, ...]))
    except ValidationError as error:
        raise ProtocolError(str(error)) from None


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_a_form_that_can_not_be_is_refused(wrong):
    row = [wrong.get(at, value) for at, value in enumerate(ROW)]
    with pytest.raises(ProtocolError):
        forms_of([row])


@pytest.mark.parametrize("rows", [5, [5], [ROW[:-1]], [[*ROW, 1]], ["abcdefghijk"], {"v": ROW}])
def test_forms_that_are_no_list_of_rows_are_refused(rows):
    with pytest.raises(ProtocolError):
        forms_of(rows)


@given(st.lists(st.integers(0, 40), max_size=200))
def test_both_sides_of_a_way_agree_on_what_a_number_means(used):
    known, layouts = Known(), Layouts()
    made = [
        Layout.of((BlockForm("v", "int8_t", "LocalArray", (), (), (at + 1,), 0, bytes=at + 1),)) for at in range(41)
    ]
    for at in used:
        step = Step(0, made[at], bytes(8))
        told = ShownStep.of(step, known, extremes=True)
        assert told.layout < LAYOUTS_KNOWN
        assert told.taken(layouts.take_of(told)) == step


def test_a_number_without_forms_before_is_refused():
    with pytest.raises(ProtocolError, match="before its forms"):
        Layouts().find(3, UNSET)


def test_minima_and_maxima_of_every_type_survive():
    for name, dtype in DTYPES.items():
        if dtype.kind in "iu":
            extremes = np.array([np.iinfo(dtype).min, np.iinfo(dtype).max], f"<{dtype.kind}8").tobytes()
            layout = Layout.of((BlockForm("v", name, "LocalArray", (), (), (1,), 0, bytes=dtype.itemsize),))
            (block,) = Step(0, layout, bytes(8), extremes=extremes).blocks
            assert (block.min, block.max) == (np.iinfo(dtype).min, np.iinfo(dtype).max)
