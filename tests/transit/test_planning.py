"""Plans of blocks that move: where they were is forgotten, and a block is in one lane wherever the others are."""

import gc
from pathlib import Path

import numpy as np
import pytest

from bbflow.operators.configured import parse_diagnostics
from bbflow.operators.space.placement import Local
from bbflow.operators.space.regridding import place_space
from bbflow.stream.cf import Encoding
from bbflow.stream.records import BlockForm, Layout, Step
from bbflow.transit.folding.lanes import Lanes
from bbflow.transit.folding.patterns import KEPT, Patterns
from bbflow.transit.folding.planning import FoldSite, Planning
from bbflow.transit.folding.plans import Directories

ROWS = 64


class Planned:
    """Plans for steps of one field, of which the mean over all blocks is wanted."""

    def __init__(self):
        diagnostics = parse_diagnostics({"x": {"space": {"mean": ["row", "lon"]}, "operators": ["mean"]}}, ["run"])
        (key,) = diagnostics
        coordinates = {"row": np.arange(float(ROWS)), "lon": np.arange(3.0)}
        placed = place_space(diagnostics[key].space, ("row", "lon"), (ROWS, 3), coordinates, lambda _: None)
        self._patterns = Patterns(diagnostics)
        self._patterns.place({key: placed})
        self._planning = Planning(diagnostics, {key: placed}, Lanes("fields", Path("out")))
        self._site = FoldSite({"a": Directories("pool", "states", "rows")}, 3, {"x": Encoding()})

    def lanes(self, number, cuts):
        """Plan a step whose blocks are cut at some rows; gives the lane of each block."""
        ends, forms, place = zip([0, *cuts], [*cuts, ROWS], strict=True), [], 0
        for first, last in ends:
            count, size = (last - first, 3), 24 * (last - first)
            forms.append(BlockForm("x", "double", "GlobalArray", (ROWS, 3), (first, 0), count, 0, 0, place, size))
            place += size
        layout = Layout.of(tuple(forms))
        step = Step(number, layout, np.zeros(len(layout.reach), "<i8").tobytes())
        plans = self._planning.plans(self._patterns.of(number, {"a": step}, whole=True), self._site)
        return {shard.key: lane for (_, lane), plan in plans.items() for shard in plan.joined}


def test_what_blocks_had_of_their_field_is_forgotten_when_they_have_moved():
    planned, alive = Planned(), {}
    for number in range(1, ROWS):
        assert len(planned.lanes(number, [number])) == 2
        if number in (KEPT + 2, 2 * KEPT + 1, ROWS - 1):
            alive[number] = sum(isinstance(own, Local) for own in gc.get_objects())
    assert 0 < max(alive[2 * KEPT + 1], alive[ROWS - 1]) <= alive[KEPT + 2]


@pytest.mark.parametrize("cuts", [[16, 32, 40], [8, 32, 48], [16, 24, 48]])
def test_a_block_stays_in_its_lane_when_others_move(cuts):
    planned = Planned()
    first, second = planned.lanes(0, [16, 32, 48]), planned.lanes(1, cuts)
    both = first.keys() & second.keys()
    assert both
    assert {key: first[key] for key in both} == {key: second[key] for key in both}
