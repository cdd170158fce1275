"""Results that somebody removes or cuts off while the run goes on."""

import json
import os
import shutil

import numpy as np
import pytest
import xarray as xr
from test_scheduler_lost import HELD, STEPS, writer

from bbflow import start_nodes
from bbflow.errors import ConfigError, DamagedError, StoreError
from bbflow.events import read_events
from bbflow.landing.client import status_of
from bbflow.net.contact import read_contact
from bbflow.operators.own.origin import look_in
from bbflow.stores.moved import STUB_BYTES, is_shard, note_place
from bbflow.stream.cf import STEP
from bbflow.transit.output.decoding import open_results
from testsupport.processes import finish_well
from testsupport.waiting import PATIENCE_S, until

LOST = "{}: removed or cut off during the run, what was published there is lost"
WHOLE, CUT = {}, {"chunks": {"dim0": 2}}
"""How results are stored: several spans in a file, or cut into chunks of shards."""


def remove(path):
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def cut_off(path):
    os.truncate(path, path.stat().st_size // 2)


def empty(path):
    os.truncate(path, 0)


def move(path):
    """Leave of a file what stays here of one that has moved to a bucket."""
    note_place(path.parents[2], "s3://bucket/out")
    os.truncate(path, STUB_BYTES[is_shard(json.loads((path.parent / "zarr.json").read_text()))])


def ended_after(act, path, tmp_path, *, results=WHOLE, raw="none", functions=None, restarts, folds=True):
    """Fold the first steps, act on what is published by then, fold the others, and return how that ended."""
    out = tmp_path / "out"
    config = {"stream": "weather", "output": str(out), "operators": {"tas": ["max"]}, "windows": ["day"]}
    config |= {"workers": {"processes": 0}, "results": results, "raw": raw, "functions": functions or {}}
    folded = lambda: [event["last_step"] for event in read_events(out) if event["event"] == "fold"]  # noqa: E731
    with start_nodes(1, "4MiB") as buffer, writer(tmp_path, buffer.contact) as process:
        with buffer.analyse(config) as analysis:
            until(lambda: folded()[-1:] == [HELD - 1], "nothing is folded")
            until(lambda: not (raw != "none" and drained(out) < HELD - 1), "nothing is drained")
            until(lambda: not functions or done(buffer.contact, "calls") == HELD - 1, "no function is called")
            until(lambda: folds or done(buffer.contact, "fold") == HELD - 1, "what is folded isn't committed")
            if not restarts:
                act(out / path)
                (tmp_path / "go").touch()
                outcome = analysis.wait(PATIENCE_S)
        if restarts:
            act(out / path)
            (tmp_path / "go").touch()
            with buffer.analyse(config, folds=folds) as analysis:
                outcome = analysis.wait(PATIENCE_S)
        if folds:
            finish_well(process)
    return outcome


ROOT = "results.zarr/zarr.json"


@pytest.mark.parametrize(
    ("act", "removed"),
    [(remove, "results.zarr"), (remove, ROOT), (cut_off, ROOT), (remove, "results.zarr/tas_day_max")],
)
def test_spans_that_are_lost_with_what_is_removed_are_told(tmp_path, act, removed):
    outcome = ended_after(act, removed, tmp_path, restarts=True)
    assert not outcome.complete
    assert LOST.format(removed.removesuffix("/zarr.json").rpartition("/")[2]) in outcome.errors


@pytest.mark.parametrize("results", [WHOLE, CUT])
@pytest.mark.parametrize("act", [remove, cut_off])
@pytest.mark.parametrize("name", ["tas_day_max/c.0.0.0", "time_day/c.0"])
def test_a_file_that_is_damaged_between_two_analyses_is_told(tmp_path, act, name, results):
    outcome = ended_after(act, f"results.zarr/{name}", tmp_path, results=results, restarts=True)
    assert not outcome.complete
    assert LOST.format(name) in outcome.errors


@pytest.mark.parametrize("act", [remove, cut_off])
@pytest.mark.parametrize("name", ["tas_day_max/c.3.0.0", "time_day/c.0"])
def test_a_file_that_is_damaged_during_an_analysis_is_told(tmp_path, act, name):
    outcome = ended_after(act, f"results.zarr/{name}", tmp_path, results={"chunks": {"time": 1}}, restarts=False)
    assert not outcome.complete
    assert outcome.errors == (LOST.format(name),)


@pytest.mark.parametrize("results", [WHOLE, CUT])
def test_no_span_is_written_behind_the_end_of_a_file_that_is_cut_off(tmp_path, results):
    name = "tas_day_max/c.0.0.0"
    with pytest.raises(StoreError, match=rf"{name} was cut off: it has \d+ of \d+ bytes, so spans in it are lost"):
        ended_after(cut_off, f"results.zarr/{name}", tmp_path, results=results, restarts=False)


def drained(out):
    """Return the number of the last step that is drained."""
    return max((event["last_step"] for event in read_events(out) if event["event"] == "drain"), default=-1)


def done(contact, consumer):
    """Return the number of the last step that a consumer has told the node to be done with."""
    (stream,) = (status_of(node).streams["weather"] for node in read_contact(contact))
    return stream.consumers[consumer]


FUNCTIONS = {"own": {"call": "answering:own", "of": "tas"}, "day": {"call": "answering:own", "results": "tas_day_max"}}


@pytest.fixture
def own(tmp_path):
    """Provide a function."""
    (tmp_path / "answering.py").write_text("def own(dataset):\n    return dataset.max()\n")
    look_in(str(tmp_path))


@pytest.mark.parametrize(
    ("act", "path", "lost"),
    [
        *((act, "/tas/c.3", "tas/c.3") for act in (remove, cut_off)),
        *((act, "/time/c.0", "time/c.0") for act in (remove, cut_off)),
        (remove, "/tas", "tas"),
        *((act, "/zarr.json", "all") for act in (remove, empty)),
        (remove, "", "all"),
    ],
)
def test_answers_that_are_lost_between_two_analyses_are_told(tmp_path, own, act, path, lost):
    outcome = ended_after(act, f"functions/own.zarr{path}", tmp_path, functions=FUNCTIONS, restarts=True)
    assert not outcome.complete
    (told,) = outcome.errors
    assert told.startswith("function own")
    assert f": {lost}" in told
    assert told.endswith(" of its store was removed or cut off during the run, so answers are lost")


@pytest.mark.parametrize(("act", "path"), [(remove, ""), (empty, "/zarr.json")])
def test_a_function_of_results_whose_store_is_lost_is_called_again_with_all(tmp_path, own, act, path):
    outcome = ended_after(act, f"functions/day.zarr{path}", tmp_path, functions=FUNCTIONS, restarts=True)
    assert (outcome.complete, outcome.errors) == (True, ())
    with xr.open_zarr(tmp_path / "out/functions/day.zarr") as answers:
        np.testing.assert_array_equal(answers.tas_day_max, np.arange(STEPS))


CHUNK = "tas/c.0.0.0"
SHARDS = {"a shard": "all", "compressed": {"compression": "zstd"}}
SINGLE, SEVERAL = {"shard": 96}, {"chunks": {"time": 4}}
"""A file a step, and chunks of several steps."""


@pytest.mark.parametrize(("act", "raw"), [(cut_off, SINGLE), *((remove, raw) for raw in (SINGLE, *SHARDS.values()))])
def test_a_file_of_raw_steps_that_is_damaged_during_an_analysis_is_told(tmp_path, act, raw):
    outcome = ended_after(act, f"raw.zarr/{CHUNK}", tmp_path, raw=raw, restarts=False)
    told = f"raw.zarr hasn't all: tas: {CHUNK} was removed or cut off during the run, so it lacks steps"
    assert (outcome.complete, outcome.errors) == (False, (told,))


BETWEEN = [
    *((empty, raw) for raw in (SINGLE, SINGLE | {"compression": "zstd"}, {"chunks": {"time": 2}, "shard": 192})),
    *((remove, raw) for raw in (SINGLE, *SHARDS.values())),
]


@pytest.mark.parametrize(("act", "raw"), BETWEEN)
def test_a_file_of_raw_steps_that_is_damaged_between_two_analyses_is_told(tmp_path, act, raw):
    outcome = ended_after(act, f"raw.zarr/{CHUNK}", tmp_path, raw=raw, restarts=True)
    told = f"raw.zarr hasn't all: tas: {CHUNK} was removed or cut off during the run, so it lacks steps"
    assert (outcome.complete, outcome.errors) == (False, (told,))


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("raw", [SINGLE, {"shard": 192}])
def test_a_file_of_raw_steps_that_has_moved_to_a_bucket_is_not_missed(tmp_path, raw, restarts):
    outcome = ended_after(move, f"raw.zarr/{CHUNK}", tmp_path, raw=raw, restarts=restarts)
    assert (outcome.complete, outcome.errors) == (True, ())


@pytest.mark.parametrize("act", [remove, cut_off])
@pytest.mark.parametrize("name", [STEP, "time"])
def test_an_axis_of_raw_steps_that_is_damaged_during_an_analysis_is_told(tmp_path, act, name):
    outcome = ended_after(act, f"raw.zarr/{name}/c.0", tmp_path, raw="all", restarts=False)
    told = f"raw.zarr hasn't all: {name}: {name}/c.0 was removed or cut off during the run, so it lacks steps"
    assert (outcome.complete, outcome.errors) == (False, (told,))


@pytest.mark.parametrize("name", [STEP, "time"])
def test_an_axis_of_raw_steps_that_is_removed_between_two_analyses_is_told(tmp_path, name):
    with pytest.raises(ConfigError, match=rf"{name}/c.0 was removed or cut off, so steps in it are lost"):
        ended_after(remove, f"raw.zarr/{name}/c.0", tmp_path, raw="all", restarts=True)


@pytest.mark.odd_stores
def test_raw_steps_whose_root_is_damaged_are_told(tmp_path):
    with pytest.raises(ConfigError, match=r"raw\.zarr/zarr\.json is damaged, it isn't JSON: give another output"):
        ended_after(cut_off, "raw.zarr/zarr.json", tmp_path, raw="all", restarts=True)


def test_what_is_folded_is_published_also_if_raw_steps_are_lost(tmp_path):
    outcome = ended_after(remove, "raw.zarr/time/c.0", tmp_path, raw="all", restarts=True, folds=False)
    assert not outcome.complete
    assert any("raw.zarr/time/c.0 was removed or cut off" in line for line in outcome.errors)
    with open_results(tmp_path / "out/results.zarr") as results:
        np.testing.assert_array_equal(results.tas_day_max[:, 0, 0], np.arange(HELD))


@pytest.mark.parametrize("name", ["blocks", "clock"])
def test_a_note_of_the_first_step_that_is_damaged_is_told(tmp_path, name):
    with pytest.raises(DamagedError, match=rf"\.fields/{name} is damaged"):
        ended_after(cut_off, f".fields/{name}", tmp_path, restarts=True)


@pytest.mark.parametrize("name", ["raw.zarr", "raw.zarr/zarr.json"])
def test_raw_steps_that_are_removed_between_two_analyses_are_told(tmp_path, name):
    with pytest.raises(ConfigError, match=r"raw\.zarr was removed, so steps in it are lost"):
        ended_after(remove, name, tmp_path, raw="all", restarts=True)


@pytest.mark.parametrize("raw", [*SHARDS.values(), SEVERAL])
def test_nothing_is_written_behind_the_end_of_a_shard_that_is_cut_off(tmp_path, raw):
    with pytest.raises(ConfigError, match=rf"{CHUNK} was cut off: it has \d+ of \d+ bytes, so steps in it are lost"):
        ended_after(cut_off, f"raw.zarr/{CHUNK}", tmp_path, raw=raw, restarts=False)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_file_of_chunks_of_several_steps_that_is_removed_is_not_made_again(tmp_path, restarts):
    with pytest.raises(ConfigError, match=f"{CHUNK} was removed, so steps in it are lost"):
        ended_after(remove, f"raw.zarr/{CHUNK}", tmp_path, raw=SEVERAL, restarts=restarts)
