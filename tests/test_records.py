import copy
import gc
import pickle

import numpy as np

from bbflow.records import Block, Layout, Step

TIME = Block("time", "double", "GlobalValue", value=0.5)


def step_at(number, first, *, spilled=None, low=1.0):
    """Two ranks of one field, the second one behind the first or in a file, and a time."""
    own = {"type": "float", "kind": "GlobalArray", "shape": (4,), "count": (2,), "bytes": 8}
    return Step.of_blocks(
        number,
        [
            Block("time", "double", "GlobalValue", value=number / 2),
            Block("t", start=(0,), offset=first, min=low, max=2.0, **own),
            Block("m", "uint64_t", "LocalArray", count=(1,), offset=first + 64, bytes=8, min=0, max=2**64 - 1),
            Block("t", start=(2,), offset=0 if spilled else first + 4096, rank=1, file=spilled, **own),
        ],
    )


def test_steps_that_lie_alike_have_the_same_layout_wherever_their_ranks_lie():
    first, second = step_at(0, 4096), step_at(1, 65536, low=-5.0)
    assert second.layout is first.layout
    assert np.frombuffer(second.sources, "<i8").tolist() == [65536, 65536 + 4096]
    assert second.values == (0.5,)


def test_a_spilled_part_is_another_layout():
    assert step_at(1, 4096, spilled="/pfs/s.1.1.spill").layout is not step_at(0, 4096).layout


def test_the_blocks_of_a_step_are_those_that_it_was_made_of():
    for spilled in (None, "/pfs/s.7.1.spill"):
        step = step_at(7, 8192, spilled=spilled)
        again = Step.of_blocks(7, step.blocks)
        assert again == step
        time, left, mask, right = step.blocks
        assert (time.value, left.offset, left.min, left.max) == (3.5, 8192, 1.0, 2.0)
        assert (mask.min, mask.max, mask.offset) == (0, 2**64 - 1, 8192 + 64)
        assert (right.min, right.file, right.offset) == (None, spilled, 0 if spilled else 8192 + 4096)


def test_a_layout_knows_where_all_blocks_of_a_step_are():
    step = step_at(0, 4096)
    offsets = step.layout.offsets(step.sources)
    assert [int(offsets[at]) for at, form in enumerate(step.layout.forms) if form.bytes] == [4096, 4160, 8192]


def test_a_layout_that_comes_from_elsewhere_is_the_one_that_is_here():
    step = step_at(0, 4096)
    assert pickle.loads(pickle.dumps(step)).layout is step.layout
    assert copy.deepcopy(step).layout is step.layout


def test_a_layout_that_nobody_has_is_forgotten():
    step = step_at(0, 4096)
    number = step.layout.number
    del step
    gc.collect()
    assert step_at(0, 4096).layout.number != number


def test_a_step_of_single_values_has_no_source():
    step = Step.of_blocks(0, [TIME])
    assert (step.sources, step.bytes, step.layout.singles) == (b"", 0, (0,))
    assert step.blocks == (TIME,)
    assert isinstance(step.layout, Layout)
