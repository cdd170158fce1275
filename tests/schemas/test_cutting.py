"""Steps that are cut anew have the same values, wherever their blocks lie."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bbflow.schemas.cutting import NEW, Cut
from bbflow.stream.layouts import BlockForm, Layout
from bbflow.stream.records import Step

FORMS = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(["pool", "file", "value"]), st.integers(1, 5)), min_size=1, max_size=9
)


def step_of(told):
    """A step of some blocks: each has a rank, lies in the pool, in a file or in the index, and has some points."""
    forms, extents = [], {}
    for number, (rank, where, points) in enumerate(sorted(told, key=lambda item: item[0])):
        name, count = f"v{number}", (points,)
        if where == "value":
            forms.append(BlockForm(name, "double", "GlobalValue", (), (), (), rank))
            continue
        extent = extents.setdefault((rank, where), 0)
        place = 64 * number
        forms.append(BlockForm(name, "double", "GlobalArray", count, (0,), count, rank, extent, place, 8 * points,
                               spilled=where == "file"))  # fmt: skip
        extents[rank, where] += number % 2
    compact = {}
    for form in forms:
        if form.bytes:
            own = compact.setdefault((form.rank, form.spilled), {})
            own.setdefault(form.extent, len(own))
    forms = [
        replace(form, extent=compact[form.rank, form.spilled][form.extent]) if form.bytes else form for form in forms
    ]
    layout = Layout.of(tuple(forms))
    sources = (4096 * np.arange(1, len(layout.reach) + 1)).astype("<i8").tobytes()
    files = tuple(f"file{number}" for number in range(layout.files))
    return Step(3, layout, sources, files, tuple(range(len(layout.singles))))


def told_of(block):
    return block.offset, block.bytes, block.file, block.value, block.rank, block.count


@given(FORMS, st.data())
def test_each_form_keeps_its_bytes_whatever_is_left_out_or_renamed(told, data):
    old = step_of(told)
    kept = data.draw(st.lists(st.sampled_from(range(len(told))), unique=True))
    renamed = [(at, replace(old.layout.forms[at], name=f"new{at}")) for at in kept]
    added = BlockForm("time", "double", "GlobalValue", (), (), (), data.draw(st.integers(0, 4)))
    new = Cut.of(old.layout, [*renamed, (NEW, added)]).step(old, [2.5])
    by_name = {block.name: block for block in new.blocks}
    assert by_name.pop("time").value == 2.5
    assert by_name.keys() == {f"new{at}" for at in kept}
    for at in kept:
        assert told_of(by_name[f"new{at}"]) == told_of(old.blocks[at])


def test_frames_that_follow_each_other_lie_alike():
    frames = [BlockForm("T", "double", "LocalArray", (), (), (2,), 0, 0, 16 * n, 16) for n in range(3)]
    old = Step(0, Layout.of(tuple(frames)), (4096).to_bytes(8, "little"))
    cuts = [Cut.of(old.layout, [(n, replace(frames[n], kind="GlobalArray", shape=(2,), start=(0,)))]) for n in range(3)]
    assert len({cut.layout.number for cut in cuts}) == 1
    assert [cut.step(old).blocks[0].offset for cut in cuts] == [4096, 4112, 4128]


def test_extremes_stay_with_the_values_that_they_are_of():
    table = BlockForm("atoms", "double", "GlobalArray", (2, 3), (0, 0), (2, 3), 0, 0, 0, 48)
    extremes = np.array([1.5, 9.5], "<f8").tobytes()
    old = Step(0, Layout.of((table,)), (4096).to_bytes(8, "little"), extremes=extremes)
    whole = replace(table, name="table")
    column = replace(table, name="x", shape=(2,), start=(0,), count=(2,), place=8, bytes=16, stride=3)
    as_bytes = replace(table, name="raw", type="int8_t", count=(48,), shape=(48,), start=(0,))
    cut = Cut.of(old.layout, [(0, whole), (0, column), (0, as_bytes)])
    new = {block.name: block for block in cut.step(old).blocks}
    assert (new["table"].min, new["table"].max) == (1.5, 9.5)
    assert new["x"].min is new["x"].max is new["raw"].min is None
    assert (new["x"].offset, new["x"].reach) == (4104, 32)
