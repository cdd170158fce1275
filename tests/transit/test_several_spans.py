"""Batches of several spans: a task folds one after the other, and what has ended is published after it."""

import pickle

import numpy as np
import pytest
import shards
import streams
import xarray as xr

from bbflow.configuring.config import parse_config
from bbflow.events import read_events
from bbflow.stream.cf import StreamAttributes
from bbflow.transit.chain.taking_over import carried_on
from bbflow.transit.folding.batches import Batch
from bbflow.transit.folding.patterns import LaidStep
from bbflow.transit.folding.task import fold_lane
from bbflow.transit.output.fields import ResultField
from bbflow.transit.output.results import Results, result_name
from bbflow.transit.publication.publish import FieldWork, publish_fields, reduce_fields, stacked
from bbflow.transit.states.files import remove_states
from bbflow.transit.states.kept import EndedSpans

SHAPE, STEPS = (4, 6), 40
HOURS = [float(hour) for hour in np.cumsum(np.random.default_rng(3).integers(2, 20, STEPS))]
"""Days of one step and of several, over two months' bound."""
FOUR = ["mean", "std", "min", "max"]
CONFIG = {
    "windows": ["day", {"running": {"days": 3}}, "month", "clim_month", "run"],
    "operators": {
        "x": FOUR,
        "y": {"of": "x", "operators": FOUR},
        "z": {"of": "x", "operators": ["last", {"percentiles": {"q": [10, 50]}}], "windows": ["day", "month"]},
        "double": {"of": "x * 2", "operators": FOUR, "windows": [{"running": {"days": 2}}]},
        "each": {
            "of": "x",
            "each": {"day": "max"},
            "operators": ["mean", {"percentiles": {"q": [50]}}],
            "windows": ["month"],
        },
    },
}
BLOCKS = {
    "one": (("a", (0, 0), SHAPE),),
    "rows": (("a", (0, 0), (2, 6)), ("a", (2, 0), (2, 6))),
    "nodes": (("a", (0, 0), (1, 6)), ("b", (1, 0), (3, 6))),
    "columns": (("a", (0, 0), (4, 2)), ("a", (0, 2), (4, 4))),
}


def values():
    random = np.random.default_rng(1)
    field = random.normal(size=(STEPS, *SHAPE))
    field[random.random(field.shape) < 0.1] = np.nan
    return field


def published(folder, blocks, most_spans, dies_at=None):
    """Fold a field and publish what ends; gives each result, and how many fields' spans were reduced together.

    Parameters
    ----------
    dies_at
        In the batch with this step the analysis dies after the tasks, and another one takes over.
    """
    folder.mkdir()
    folding = carried_on(parse_config({"stream": "fields", "output": str(folder)} | CONFIG), {"": (-1, b"")})
    landed = shards.Landed(folder, values())
    results = Results(folder / "results.zarr", "s", StreamAttributes({}), shards.CLOCK)
    fields = {
        key: ResultField(key, np.dtype(item.outer_dtype(np.dtype("f8"))).str, SHAPE, ("lat", "lon"), {}, {})
        for key, item in folding.config.diagnostics.items()
    }
    together = 0

    def publish(ended):
        spans = [(closing, own.kept) for own in ended for closing in own.closings]
        described = [
            {
                key: (fields[key], item.operators)
                for key, item in kept.config.diagnostics.items()
                if closing.window in item.windows
            }
            for closing, kept in spans
        ]
        prepared = results.prepare([(closing, own) for (closing, _), own in zip(spans, described, strict=True)])
        works = [
            work_of(folder, closing, kept, key, prepared[at].targets[key])
            for at, (closing, kept) in enumerate(spans)
            for key in described[at]
        ]
        expected, _ = reduce_fields(works)
        publish_fields(works)
        results.show(prepared, {})
        written = iter(expected)
        for at, span in enumerate(prepared):
            for key in described[at]:
                for operator, found in next(written).items():
                    name = result_name(fields[key].name, span.closing.window.name, operator)
                    np.testing.assert_array_equal(results.result(name, span.index), found)
        return sum(len(span) for stack in stacked(works)[0] for span in stack)

    at = 0
    while at < STEPS:
        pattern = landed.pattern(folding.config.diagnostics, blocks)
        batch = Batch(at - 1, folding.common.timeline.numbers)
        while at < STEPS:
            keys = shards.keys_of(folding, HOURS[at], at)
            if not batch.fits(keys, pattern, most_spans):
                break
            laid = LaidStep(at, HOURS[at], pattern, landed.parts(at, pattern), {})
            batch.add(laid, batch.passed.after(HOURS[at]), keys)
            at += 1
        closings = folding.closing(batch.spans[0].keys)
        ended = [EndedSpans(closings, folding.kept)] if closings else []
        works = folding.works(batch, landed.site, holds=True).values()
        receipts = [fold_lane(*pickle.loads(pickle.dumps((work, *plans)))) for work, plans in works]
        if dies_at in batch.steps:
            folding, dies_at = shards.restarted(folding, None), None
            at = folding.cursor + 1
            continue
        ended += folding.take(batch, receipts)
        together += publish(ended) if ended else 0
        folding.states.let_go()
    together += publish([EndedSpans(folding.closing(None), folding.kept)])
    remove_states(str(folder / "state"), folding.lanes.run)  # else this process keeps them mapped
    found = {
        result_name(fields[key].name, window.name, operator.name): None
        for key, item in folding.config.diagnostics.items()
        for window in item.windows
        for operator in item.operators
    }
    return {name: [results.result(name, at) for at in range(len_of(results, name))] for name in found}, together


def work_of(folder, closing, kept, key, targets):
    diagnostic, shards = kept.config.diagnostics[key], tuple(kept.of(key))
    return FieldWork(diagnostic, SHAPE, closing, shards, str(folder), targets=targets)


def len_of(results, name):
    return results.described(name)[1][0]


@pytest.mark.parametrize("blocks", BLOCKS)
def test_several_spans_of_a_batch_come_to_the_same_as_one_after_the_other(tmp_path, blocks):
    one, _ = published(tmp_path / "one", BLOCKS[blocks], 1)
    several, together = published(tmp_path / "several", BLOCKS[blocks], 7)
    taken_over, _ = published(tmp_path / "taken over", BLOCKS[blocks], 7, dies_at=STEPS // 2)
    assert (together > 0) is (blocks in ("one", "rows"))
    assert sum(len(spans) for spans in one.values()) > 4 * STEPS
    for found in (several, taken_over):
        assert found.keys() == one.keys()
        for name, spans in one.items():
            np.testing.assert_array_equal(found[name], spans, err_msg=name)


def test_days_come_to_what_numpy_makes_of_their_steps(tmp_path):
    found, _ = published(tmp_path / "several", BLOCKS["one"], 7)
    days = np.array([shards.CLOCK.date(hour).timetuple()[:3] for hour in HOURS])
    field = values()
    for at, day in enumerate(np.unique(days, axis=0)):
        own = field[(days == day).all(axis=1)]
        with np.errstate(invalid="ignore"):
            np.testing.assert_allclose(found["x_day_mean"][at], np.nansum(own, 0) / np.isfinite(own).sum(0), rtol=1e-12)
    assert len(found["x_day_mean"]) == len(np.unique(days, axis=0))


def test_steps_that_lie_otherwise_begin_a_batch_after_another_span(tmp_path):
    config = {"stream": "fields", "output": str(tmp_path), "windows": ["day"], "operators": {"x": ["mean"]}}
    folding, landed = carried_on(parse_config(config), {"": (-1, b"")}), shards.Landed(tmp_path, values())
    one, other = (landed.pattern(folding.config.diagnostics, BLOCKS[name]) for name in ("one", "rows"))
    batch, keys = Batch(-1, folding.common.timeline.numbers), [{"day": (2000, 1, day)} for day in (1, 2, 3)]
    for step in range(2):
        assert batch.fits(keys[step], one, 2)
        laid = LaidStep(step, float(step), one, landed.parts(step, one), {})
        batch.add(laid, batch.passed.after(float(step)), keys[step])
    assert batch.fits(keys[1], one, 2)
    assert not batch.fits(keys[1], other, 2)
    assert not batch.fits(keys[2], one, 2)
    assert batch.fits(keys[2], one, 3)
    assert [(span.times, span.keys) for span in batch.spans] == [((0.0,), keys[0]), ((1.0,), keys[1])]


def test_rows_of_steps_that_are_folded_again_after_a_crash_stand_in_their_table_once(tmp_path):
    def add(steps, through):
        results = Results(tmp_path / "results.zarr", "s", StreamAttributes({}), shards.CLOCK)
        rows = np.zeros(len(steps), [("value", "f4"), ("step", "i8"), ("time", "f8")])
        rows["step"] = steps
        results.add_rows("x_above", "x above 1", ResultField("x", "<f4", (), (), {}, {}), rows, [], through)
        return xr.open_zarr(results.path, group="x_above", chunks=None).step.values.tolist()

    assert add([0, 2, 9], 11) == [0, 2, 9]
    assert add([0, 2], 4) == [0, 2, 9]  # the analysis died before its checkpoint, and folds fewer steps at once
    assert add([9, 13], 15) == [0, 2, 9, 13]


def test_states_are_copied_where_each_batch_has_ends_and_rows(tmp_path):
    fields = {"x": np.ones((12, 3), "f4")}
    streams.store(tmp_path, fields, np.arange(12.0), {"time/units": "days since 2000-01-01"})
    operators = {"x": ["mean", {"filter": {"above": 0}}]}
    streams.analyse(tmp_path, {"operators": operators, "windows": ["day"], "safe_every_s": 1e-9})
    events = list(read_events(tmp_path / "out"))
    last = {kind: [event for event in events if event["event"] == kind][-1] for kind in ("fold", "safe")}
    assert last["safe"]["step"] == last["fold"]["last_step"] == 11
