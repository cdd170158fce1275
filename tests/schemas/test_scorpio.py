"""SCORPIO's output as it is: frames in a step, points by a map, several decompositions, records as bytes."""

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from functools import partial

import bbflow_adios2
import numpy as np
import pytest
import xarray as xr

from bbflow import connect, start_nodes
from bbflow.configuring.step_time import TimeConfig
from bbflow.errors import ConfigError, DamagedError, StreamError
from bbflow.host.atomic import PRIVATE, write_whole
from bbflow.landing.client import NodeClient, status_of
from bbflow.landing.requests import DoneRequest
from bbflow.net.contact import read_contact
from bbflow.net.verdicts import DoneReply
from bbflow.schemas.scorpio import Scorpio
from bbflow.schemas.testing import SchemaTests
from bbflow.stream.layouts import BlockForm, Layout
from bbflow.stream.records import Step
from bbflow.transit.chain.merging import merge_states
from bbflow.transit.output.decoding import open_results
from bbflow.view.adapting import Adapting, StreamConfig
from bbflow.view.consumers import FOLD
from bbflow.view.numbering import Numbering
from bbflow.view.stream import News
from testsupport.waiting import until

RANKS, FRAMES, FILL = 2, (5, 1, 6), 1e20
DAYS = sum(FRAMES)
PROGRAM = """
import os
import sys
import time
import adios2
import numpy as np
from adios2.bindings import Mode

folder, rank, ranks = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
told = np.load(f"{folder}/fields.npz")
io = adios2.Adios(f"{folder}/engine.xml").declare_io("h0")
begin = int(told["begin"]) if "begin" in told else 0
maps = {"512": told["places"], "513": told["columns"]}
mine = {name: np.ascontiguousarray(places[rank::ranks]) for name, places in maps.items()}
mine["513"] = mine["513"] if rank else np.zeros(2, "i8")  # the first task has no columns: two holes stand for them

def note(name, value):
    if rank == 0:
        io.define_attribute(name, value)

def local(name, values):
    return io.define_variable(name, values, [], [], [len(values)])

def raw(name, start, count, values):
    content = np.concatenate([np.array([*start, *count], "i8").view("u1"), np.asarray(values).reshape(-1).view("u1")])
    if rank == 0:
        if name not in records:
            records[name] = io.define_variable(f"/__pio__/var/{name}", content, [], [], [len(content)])
        records[name].set_selection([[], [len(content)]])
        engine.put(records[name], content, Mode.Sync)

records, dims = {}, {"time": 0, "lev": 4, "ncol": 6, "nbnd": 2}
note("/__pio__/global/title", "a history file")
for name, own, kind in (("T", ["time", "lev", "ncol"], 5), ("P", ["time", "ncol"], 6), ("area", ["ncol"], 6)):
    note(f"/__pio__/var/{name}/def/dims", own)
    note(f"/__pio__/var/{name}/def/nctype", np.array([kind], "i4"))
    note(f"/__pio__/var/{name}/def/ncop", "darray")
    note(f"/__pio__/var/{name}/units", {"T": "K", "P": "Pa", "area": "m2"}[name])
for name, own in (("time", ["time"]), ("time_bnds", ["time", "nbnd"]), ("lev", ["lev"])):
    note(f"/__pio__/var/{name}/def/dims", own)
    note(f"/__pio__/var/{name}/def/adiostype", np.array([2], "i4"))
    note(f"/__pio__/var/{name}/def/ncop", "put_var")
if "missing" in told:
    note("/__pio__/var/T/missing_value", told["missing"])
note("/__pio__/var/time/units", "days since 2001-01-25")
note("/__pio__/var/time/calendar", "noleap")
for name, lengths in (("512", [4, 6]), ("513", [6])):
    note(f"/__pio__/decomp/{name}/dimlen", np.array(lengths, "i4"))
lengths = {name: io.define_variable(f"/__pio__/dim/{name}", np.zeros(1, "u8")) for name in dims}
places = {name: local(f"/__pio__/decomp/{name}", own) for name, own in mine.items()}
fields = {"T": local("/__pio__/var/T", np.zeros(len(mine["512"]), "f4"))}
fields |= {name: local(f"/__pio__/var/{name}", np.zeros(len(mine["513"]))) for name in ("P", "area")}
tracks = {}

def values(name, decomp, step):
    whole = told[name] if step is None else told[name][step]
    own = np.append(whole.reshape(-1), 0)[mine[decomp] - 1]  # a hole has anything
    return np.ascontiguousarray(np.where(mine[decomp] > 0, own, 77).astype(whole.dtype))

def track(kind, name, numbers, writer):
    if rank == writer and len(numbers):
        key = f"/__pio__/track/{kind}/{name}"
        if key not in tracks:
            tracks[key] = local(key, numbers)
        tracks[key].set_selection([[], [len(numbers)]])
        engine.put(tracks[key], numbers, Mode.Sync)

engine, first = io.open("h0", Mode.Write), 0
for file, count in enumerate(told["frames"].tolist()):
    while file == told.get("held", -1) and not os.path.exists(f"{folder}/go") and os.path.exists(folder):
        time.sleep(0.01)
    engine.begin_step()
    for name, length in dims.items():
        engine.put(lengths[name], np.array([length], "u8"), Mode.Sync)
    raw("lev", [0], [4], 1000.0 - 100 * np.arange(4.0))
    for name, own in mine.items():
        engine.put(places[name], own[::-1].copy() if file and "turned" in told else own, Mode.Sync)
    engine.put(fields["area"], values("area", "513", None), Mode.Sync)
    track("frame_id", "area", np.array([-1], "i4"), 0)
    track("decomp_id", "area", np.array([-513], "i4"), ranks - 1)
    for frame in range(count):
        raw("time", [frame], [1], [float(begin + first + frame)])
        raw("time_bnds", [frame, 0], [1, 2], [float(begin + first + frame), begin + first + frame + 1.0])
        engine.put(fields["T"], values("T", "512", first + frame), Mode.Sync)
        engine.put(fields["P"], values("P", "513", first + frame), Mode.Sync)
    for name, decomp in (("T", 512), ("P", -513)):
        track("frame_id", name, np.arange(count, dtype="i4"), 0)
        track("decomp_id", name, np.full(count, decomp, "i4"), ranks - 1)
    track("fillval_id", "T", np.full(count, 1e20, "f4"), 0)
    engine.end_step()
    first += count
engine.close()
"""


@pytest.fixture(scope="module")
def fields():
    """What the program puts, as its own converter would have it: NaN where it has put nothing, or the fill value."""
    random = np.random.default_rng(5)
    temperature = (random.random((DAYS, 4, 6)) + 280).astype("f4")
    temperature[3, 1, 2] = temperature[8, 0, 0] = FILL
    pressure = random.random((DAYS, 6)) + 1e5
    places = random.permutation(np.arange(1, 25))[:21]
    return {
        "T": temperature, "P": pressure, "area": np.arange(6.0), "frames": np.array(FRAMES),
        "places": np.concatenate([places[:9], [0], places[9:], [0, 0]]),
        "columns": np.array([0, 1, 0, 2, 0, 4, 0, 6]),
    }  # fmt: skip


def expected(fields):
    """The fields with their dates."""
    there = np.isin(np.arange(1, 25), fields["places"]).reshape(4, 6)
    temperature = np.where(there & (fields["T"] < FILL), fields["T"], np.nan)
    pressure = np.where(np.isin(np.arange(1, 7), fields["columns"]), fields["P"], np.nan)
    times = xr.date_range("2001-01-25", periods=DAYS, freq="D", calendar="noleap", use_cftime=True)
    return xr.Dataset({"T": (("time", "lev", "ncol"), temperature), "P": (("time", "ncol"), pressure)}, {"time": times})


def config_of(folder, **changes):
    return {
        "stream": "h0", "operators": {"T": ["mean", "max", "count"], "P": ["mean"]}, "windows": ["month", "run"],
        "raw": "all", "output": str(folder / "out"), "workers": {"processes": 0, "threads": 2, "batch_steps": 2},
    } | changes  # fmt: skip


@contextmanager
def written(folder, fields, contact):
    """Write the whole stream by two ranks."""
    with writing(folder, fields, contact) as ranks:
        assert [rank.wait(300) for rank in ranks] == [0] * RANKS
        yield


@contextmanager
def writing(folder, fields, contact, **parameters):
    """Two ranks write the stream; those that aren't done at the end are killed."""
    np.savez(folder / "fields.npz", **fields)
    (folder / "engine.xml").write_text(bbflow_adios2.engine_xml("h0", **parameters))
    (folder / "program.py").write_text(PROGRAM)
    environment = os.environ | bbflow_adios2.environment(contact) | {"PMI_SIZE": str(RANKS)}
    words = [sys.executable, folder / "program.py", folder]
    ranks = [
        subprocess.Popen([*words, str(rank), str(RANKS)], env=environment | {"PMI_RANK": str(rank)})
        for rank in range(RANKS)
    ]
    try:
        yield ranks
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()


def turned(contact, copy):
    """Write a contact file with the same nodes in the other order."""
    told = json.loads(contact.read_text())
    write_whole(copy, json.dumps(told | {"nodes": told["nodes"][::-1]}), PRIVATE)
    return copy


def assert_is_right(folder, fields):
    whole = expected(fields)
    months = whole.resample(time="MS")
    with open_results(folder / "out" / "results.zarr") as results:
        assert results.T_month_mean.dims == ("time_month", "lev", "ncol")
        assert results.T_month_mean.attrs["units"] == "K"
        np.testing.assert_allclose(results.T_month_mean, months.mean().T, rtol=1e-6)
        np.testing.assert_array_equal(results.T_month_max, months.max().T)
        np.testing.assert_array_equal(results.T_month_count, months.count().T)
        np.testing.assert_allclose(results.P_run_mean[0], whole.P.mean("time"), rtol=1e-12)
        np.testing.assert_array_equal(results.lev, [1000, 900, 800, 700])
        np.testing.assert_array_equal(results.steps_run, [DAYS])
    with xr.open_zarr(folder / "out" / "raw.zarr") as raw:
        np.testing.assert_array_equal(raw.T, whole.T)
        np.testing.assert_array_equal(raw.P, whole.P)
        np.testing.assert_array_equal(raw.time, whole.time)


@pytest.mark.parametrize("nodes", [1, 2])
def test_statistics_are_those_of_the_fields_that_the_map_puts_together(tmp_path, fields, nodes):
    with (
        start_nodes(nodes, "16MiB") as buffer,
        buffer.analyse(config_of(tmp_path)) as analysis,
        written(tmp_path, fields, buffer.contact),
    ):
        outcome = analysis.wait(300)
    assert (outcome.complete, outcome.steps) == (True, DAYS)
    assert_is_right(tmp_path, fields)


def some(fields, days, frames, **changes):
    """What the program puts on some of the days, with this many frames in each step."""
    own = {name: fields[name][days] for name in ("T", "P")}
    return fields | own | {"begin": np.array(days.start), "frames": np.array(frames)} | changes


def run(folder, fields, **changes):
    with (
        start_nodes(1, "16MiB") as buffer,
        buffer.analyse(config_of(folder, raw="none", **changes)) as analysis,
        written(folder, fields, buffer.contact),
    ):
        return analysis.wait(300)


def test_a_step_without_frames_is_one_step(tmp_path, fields):
    told = {"operators": {"area": ["mean"]}, "windows": ["run"], "time": {"by": "steps"}}
    assert run(tmp_path, some(fields, slice(0, 0), [0]), **told).complete
    with open_results(tmp_path / "out" / "results.zarr") as results:
        there = np.isin(np.arange(1, 7), fields["columns"])
        np.testing.assert_array_equal(results.area_run_mean[0], np.where(there, fields["area"], np.nan))
        np.testing.assert_array_equal(results.steps_run, [1])
        np.testing.assert_array_equal(results.lev, [1000, 900, 800, 700])


def test_what_has_no_frame_is_not_lost_before_the_frames(tmp_path, fields):
    with pytest.raises(ConfigError, match="has no variable 'T' in its first step"):
        run(tmp_path, some(fields, slice(0, 2), [0, 2]), operators={"T": ["mean"]})


def test_a_chain_of_jobs_goes_on_where_the_decompositions_are_the_same(tmp_path, fields):
    first, second = tmp_path / "first", tmp_path / "second"
    for folder, days, frames in ((first, slice(0, 5), [3, 2]), (second, slice(5, DAYS), [1, 6])):
        folder.mkdir()
        before = {"continue": str(first / "out")} if folder is second else {}
        assert run(folder, some(fields, days, frames), **before).complete
    whole = expected(fields)
    with open_results(second / "out" / "results.zarr") as results:
        np.testing.assert_array_equal(results.T_run_max[0], whole.T.max("time"))
        np.testing.assert_allclose(results.P_run_mean[0], whole.P.mean("time"), rtol=1e-12)
        np.testing.assert_allclose(results.T_month_mean[0], whole.resample(time="MS").mean().T[0], rtol=1e-6)
        np.testing.assert_array_equal(results.steps_run, [DAYS])
    with pytest.raises(ConfigError, match="states of such fields can't be merged"):
        merge_states([first / "out", second / "out"], tmp_path / "merged")


def test_a_decomposition_that_changes_within_a_stream_is_refused(tmp_path, fields):
    with pytest.raises(StreamError, match="decomposition 512 has other points than it had"):
        run(tmp_path, fields | {"turned": np.array(1)})


def test_a_chain_of_jobs_with_other_decompositions_is_refused(tmp_path, fields):
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    run(first, some(fields, slice(0, 5), [5]))
    turned = some(fields, slice(5, DAYS), [7], places=fields["places"][::-1])
    with pytest.raises(ConfigError, match="T: order of the points"):
        run(second, turned, **{"continue": str(first / "out")})


class KilledError(Exception):
    """Stands for a signal."""


@pytest.mark.parametrize("within", [True, False])
def test_an_analysis_that_is_killed_between_two_nodes_takes_no_frame_twice(tmp_path, fields, monkeypatch, within):
    """One node has the new cursor: within a landed step, or with one that is done, of which it lets go."""
    ask, counted = NodeClient.ask, []

    def killed(self, asked, **more):
        ask(self, asked, **more)
        if isinstance(asked, DoneRequest) and asked.consumer == FOLD:
            counted.append(asked.step)
            if asked.step >= 0 or (within and counted.count(-1) == 5):
                self.answer(DoneReply)
                raise KilledError

    with start_nodes(2, "16MiB") as buffer:
        with monkeypatch.context() as patch:
            patch.setattr(NodeClient, "ask", killed)
            with (
                buffer.analyse(config_of(tmp_path)) as analysis,
                written(tmp_path, fields, buffer.contact),
                pytest.raises(KilledError),
            ):
                analysis.wait(300)
        with buffer.analyse(config_of(tmp_path)) as analysis:
            outcome = analysis.wait(300)
    assert (outcome.complete, outcome.steps) == (True, DAYS)
    assert_is_right(tmp_path, fields)


@pytest.mark.parametrize("own", [None, 1e20, [-999.0]])
def test_what_stands_for_missing_values_is_known_after_a_kill(tmp_path, fields, monkeypatch, own):
    """SCORPIO tells it in values of steps, the first of which are gone; the program may tell the same or another."""
    fields = fields | {"held": np.array(2)} | ({} if own is None else {"missing": np.array(own, "f4")})
    ask = NodeClient.ask

    def killed(self, asked, **more):
        ask(self, asked, **more)
        if isinstance(asked, DoneRequest) and asked.consumer == FOLD and asked.step >= 0:
            self.answer(DoneReply)
            raise KilledError

    with start_nodes(2, "16MiB") as buffer, writing(tmp_path, fields, buffer.contact) as ranks:
        # Rank 0, which tells attributes, isn't on the first one.
        nodes = connect(turned(buffer.contact, tmp_path / "turned.json"))
        with monkeypatch.context() as patch:
            patch.setattr(NodeClient, "ask", killed)
            with nodes.analyse(config_of(tmp_path, raw="none")) as analysis, pytest.raises(KilledError):
                analysis.wait(300)
        (tmp_path / "go").touch()
        with nodes.analyse(config_of(tmp_path, raw="none")) as analysis:
            assert analysis.wait(300).complete
        assert [rank.wait(300) for rank in ranks] == [0] * RANKS
    with open_results(tmp_path / "out" / "results.zarr") as results:
        np.testing.assert_array_equal(results.T_run_max[0], expected(fields).T.max("time"))


def test_steps_that_were_discarded_before_a_restart_are_told(tmp_path, fields):
    """Nodes tell which landed steps those were, and these have two frames each, which aren't counted again."""
    before, own = 23, {name: np.repeat(fields[name][:1], 48, 0) for name in ("T", "P")}
    told = fields | own | {"frames": np.full(before + 1, 2), "held": np.array(before)}
    config = config_of(tmp_path, raw="none", windows=["run"])
    with start_nodes(1, "128KiB") as buffer:
        status = partial(status_of, *read_contact(buffer.contact))
        with writing(tmp_path, told, buffer.contact, QueueFullPolicy="Discard") as ranks:
            until(lambda: (now := status().streams.get("h0")) and now.landed + now.discarded == before)
            dropped = status().streams["h0"].discarded
            with buffer.analyse(config):
                until(lambda: status().streams["h0"].consumers.get("fold") == before - 1, "not all is folded")
            (tmp_path / "go").touch()
            assert [rank.wait(300) for rank in ranks] == [0] * RANKS
        with buffer.analyse(config) as analysis:
            outcome = analysis.wait(300)
    steps = 2 * (before - dropped) + 2
    assert 0 < dropped < before
    assert (outcome.complete, outcome.steps, outcome.discarded) == (False, steps, dropped)
    assert outcome.errors[0].startswith(f"{dropped} of {steps + dropped} steps were discarded")


def test_a_note_of_discarded_steps_that_is_damaged_is_told(tmp_path):
    (tmp_path / "discarded").write_bytes(b"[1, 2")
    config = StreamConfig(TimeConfig(by="steps"), schema="scorpio")
    adapting = Adapting(["a"], {"a": -1}, config, lambda *_: None, Numbering(), folder=tmp_path)
    with pytest.raises(DamagedError, match="discarded is damaged: "):
        list(adapting.take("a", News("closed", 1, 1)))


@pytest.mark.parametrize(
    ("operators", "says"),
    [
        ({"T": {"space": "fldmean", "operators": ["mean"]}}, "T has its points in an order of its own"),
        ({"x": {"of": "T + P", "operators": ["mean"]}}, "has a block at|lie in different orders"),
        ({"T": [{"filter": {"above": 280, "name": "hot"}}]}, "a filter can't say where they lie"),
    ],
)
def test_what_a_map_does_not_allow_is_refused(tmp_path, fields, operators, says):
    config = config_of(tmp_path, operators=operators, raw="none")
    with (
        start_nodes(1, "16MiB") as buffer,
        buffer.analyse(config) as analysis,
        written(tmp_path, fields, buffer.contact),
        pytest.raises(ConfigError, match=says),
    ):
        analysis.wait(300)


def test_a_landed_step_is_done_with_its_last_frame():
    numbering = Numbering()
    numbering.begin(-1, -1)
    for landed, last in enumerate([4, 4, 5, 11]):
        numbering.add(landed, last)
    assert [numbering.done(step) for step in (-1, 3, 4, 5, 10, 11)] == [
        (-1, -1),
        (-1, -1),
        (1, 4),
        (2, 5),
        (2, 5),
        (3, 11),
    ]
    numbering.let_go(5)
    assert (numbering.done(7), numbering.last) == ((2, 5), 11)


class TestScorpio(SchemaTests):
    """What holds for all schemas."""

    def make(self):
        return Scorpio()

    def landed(self):
        forms = [
            BlockForm(f"/__pio__/track/{kind}/T", "int32_t", "LocalArray", (), (), (3,), 0, 0, 64 * number, 12)
            for number, kind in enumerate(("frame_id", "decomp_id"))
        ]
        forms.append(BlockForm("/__pio__/decomp/512", "int64_t", "LocalArray", (), (), (2,), 0, 0, 128, 16))
        forms += [
            BlockForm("/__pio__/var/T", "double", "LocalArray", (), (), (2,), 0, 0, 256 + 16 * n, 16) for n in range(3)
        ]
        layout = Layout.of(tuple(forms))
        return [{"a": Step(n, layout, (4096 * n).to_bytes(8, "little"))} for n in range(3)]

    def read(self, node, number, block):
        blocks = {0: np.arange(3, dtype="i4"), 64: np.full(3, -512, "i4"), 128: np.array([3, 1], "i8")}
        return blocks[block.offset % 4096]

    def attributes(self):
        return {"/__pio__/var/T/units": "K", "/__pio__/var/T/def/dims": ["time", "x"], "/__pio__/decomp/512/dimlen": 3}
