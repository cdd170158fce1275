"""What counts after a driver died between the commits to two nodes, or went on without one of them."""

from dataclasses import replace

import cftime
import numpy as np
import pytest
from msgspec import structs

from bbflow.configuring.config import parse_config
from bbflow.operators.space import parse_space
from bbflow.operators.space.regridding import place_space
from bbflow.operators.windows import parse_windows
from bbflow.stream.cf import Encoding
from bbflow.stream.layouts import BlockForm, Layout
from bbflow.transit.folding.batches import Batch
from bbflow.transit.folding.bookkeeping import Folding
from bbflow.transit.folding.patterns import LaidStep, Pattern
from bbflow.transit.folding.planning import FoldSite
from bbflow.transit.folding.plans import Directories
from bbflow.transit.folding.task import fold_lane
from bbflow.transit.folding.work import FoldReceipt, PartialSteps
from bbflow.transit.spans.slots import BASE, OUTER
from bbflow.transit.spans.timeline import Passed
from bbflow.transit.states.files import map_source
from bbflow.transit.states.shards import ShardKey, ShardState
from bbflow.transit.states.state_layouts import state_layout_of
from bbflow.transit.states.tables import States

CONFIG = {"stream": "s", "operators": {"tas": {"operators": ["mean"], "windows": ["month", "run"]}}}
WINDOWS = parse_windows(["month", "run"])


def keys_of(day):
    date = cftime.num2date(day, "days since 2000-01-01", "noleap")
    return {window.name: window.key(date, 0) for window in WINDOWS}


def table_of(node, **more):
    key = ShardKey(node, "tas", (0,), (4,))
    return States.of([(key, ((0,), (4,)), ShardState(dtype="<f8", **more))])[0]


ROSTERS = {table.roster.digest: table.roster for table in map(table_of, "ab")}


def checkpoint(node, last_day):
    """What a node keeps of a fold whose last step, one a day, was this one."""
    folding = Folding(parse_config(CONFIG), {node: (-1, b"")})
    days = range(last_day + 1)
    passed = Passed(1.0, float(last_day), first=0.0)
    timeline = folding.common.timeline
    for times, keys in (([float(day) for day in days], keys_of(0)), ([float(last_day)], keys_of(last_day))):
        timeline = timeline.after(folding.windows, times, keys, passed)
    folding.common = structs.replace(folding.common, timeline=timeline)
    folding.states.put(table_of(node, last_step=last_day, last_time=float(last_day), keys=keys_of(last_day)))
    return folding.checkpoints()(node)


@pytest.mark.parametrize(("behind", "ahead", "published"), [(30, 31, True), (30, 30, False), (29, 30, False)])
def test_a_span_that_a_node_has_gone_beyond_isnt_published_again(behind, ahead, published):
    cursors = {"a": (behind, checkpoint("a", behind)), "b": (ahead, checkpoint("b", ahead))}
    folding = Folding(parse_config(CONFIG), cursors, rosters=ROSTERS)
    assert folding.cursor == behind
    month, *others = folding.closing(keys_of(31))
    assert (month.window.name, others) == ("month", [])
    assert folding.was_published(month) is published


def test_what_fails_later_isnt_told_to_tasks_that_have_begun():
    """They have what they were given, not a copy of it."""
    folding = Folding(parse_config(CONFIG), {"a": (-1, b"")})
    given = folding.kept.errors
    folding.fail({"mine": "failed"})
    assert (given, folding.kept.errors) == ({}, {"mine": "failed"})


def test_joined_steps_that_are_in_the_state_already_are_not_folded_again(tmp_path):
    """A state that was copied to safety may be ahead of the nodes that are left, which hold its steps still."""
    folding = Folding(
        parse_config({"stream": "s", "operators": {"tas": {"space": {"mean": "lat"}, "operators": ["mean"]}}}),
        {"a": (4, checkpoint("a", 4))},
        rosters=ROSTERS,
    )
    folding.place(
        {"tas": place_space(parse_space({"mean": "lat"}), ("lat",), (4,), {"lat": np.arange(4.0)}, {}.__getitem__)},
        held={},
    )
    key = ShardKey("a", "tas", (), ())
    known = ShardState(dtype="<f8", last_step=6, last_time=6.0, keys=keys_of(6))
    folding.states.put(*States.of([(key, ((), ()), known)]))
    site = FoldSite({"a": Directories("", str(tmp_path), str(tmp_path))}, 1, {"tas": Encoding()})

    def folded(steps):
        work, plans = folding.series_work(*joined(steps), site)
        return States(plans[0].roster, fold_lane(work, *plans).spans[-1].alike).get(key)

    assert folded((5, 6)) == known
    once = folded((5, 6, 7))
    layout = state_layout_of(folding.config.diagnostics["tas"], OUTER, np.dtype("f8"), ())
    assert layout.views(map_source(once.files[BASE[OUTER]]))["moments"]["count"] == 1
    assert once.last_step == 7
    stepwise = [folding.stepwise(joined(steps)[0], site) for steps in ((5, 6, 7), (7, 8))]
    assert stepwise == [{"tas"}, frozenset()]  # the mean of three steps can't leave out the first two


def test_blocks_of_which_some_have_a_mean_are_joined_step_by_step_from_then_on(tmp_path):
    folding = Folding(parse_config(CONFIG), {"a": (-1, b"")})
    site, steps = FoldSite({"a": Directories("", str(tmp_path), str(tmp_path))}, 1, {"tas": Encoding()}), (5, 6)
    batch, [own] = joined(steps)
    mean = replace(own, partials=(replace(own.partials[0], values=np.ones((1, 2, 1))),))
    assert not folding.splits([own, own])
    assert not folding.splits([mean, mean])
    assert folding.stepwise(batch, site) == frozenset()
    assert folding.splits([own, mean])
    assert folding.stepwise(batch, site) == {"tas"}


def joined(steps):
    """A batch of some steps, and what the only block of a field has contributed to their global means."""
    key, form = (
        ShardKey("a", "tas", (0,), (4,)),
        BlockForm("tas", "double", "GlobalArray", (4,), (0,), (4,), 0, 0, 0, 32),
    )
    part = PartialSteps(key, steps, np.ones((len(steps), 2, 1)))
    layouts, regions = {"a": Layout.of((form,))}, {"tas": {key: {"tas": ("a", 0)}}}
    batch, pattern = Batch(-1, Passed()), Pattern(layouts, regions, {}, shapes={"tas": (4,)})
    for step in steps:
        batch.add(LaidStep(step, float(step), pattern, {}, {}), batch.passed.after(float(step)), keys_of(5))
    return batch, [FoldReceipt("", (), (part,), 0, 0.0, 0.0)]
