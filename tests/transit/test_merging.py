"""Merging the states of separate runs, and state files that can't be gone on from or merged."""

import os
import re
import subprocess
import sys
import zlib

import msgspec
import numpy as np
import pytest
import shards
import streams
import xarray as xr

from bbflow.cli import main
from bbflow.configuring.config import parse_config
from bbflow.errors import BbflowError, ConfigError, DamagedError
from bbflow.run.course import INCOMPLETE
from bbflow.transit.chain.comparing import check_continued
from bbflow.transit.chain.merging import merge_states
from bbflow.transit.chain.saved import PAGE_BYTES, PREFIX, read_state
from bbflow.transit.output.claiming import STATE_FILE

SHAPE = 3, 4
ONE = [("a", (0, 0), SHAPE)]
TWO = [("a", (0, 0), (3, 1)), ("b", (0, 1), (3, 3))]
HOURS = [6.0 * step for step in range(22)]
CONFIG = {
    "windows": ["month", "clim_dayofyear", {"running": {"days": 2}}, {"steps": 8}, "run"],
    "operators": {
        "x": ["mean", {"std": {"ddof": 1}}, "max", {"percentiles": {"q": [50]}}],
        "txx": {"of": "x", "each": {"day": "max"}, "operators": ["mean", "count"], "windows": ["run"]},
    },
}
SPELLS = {"windows": ["run"], "operators": {"x": [{"longest_spell": {"above": 0.0}}]}}


def member(number):
    return np.random.default_rng(number).normal(size=(len(HOURS), *SHAPE))


@pytest.fixture(scope="module")
def members(tmp_path_factory):
    folder = tmp_path_factory.mktemp("members")
    for number, regions in enumerate((ONE, TWO, TWO)):
        shards.run(folder / str(number), CONFIG, member(number), HOURS, regions)
    return [folder / str(number) for number in range(3)]


def days(field):
    """Each day's maximum; the last day is open at the end."""
    return np.stack([field[first : first + 4].max(0) for first in range(0, len(HOURS), 4)])


def test_members_merge_to_what_numpy_makes_of_all(members, tmp_path):
    assert main(["merge", *map(str, members), "--output", str(tmp_path / "all")]) == 0
    fields = np.stack([member(number) for number in range(3)])
    with xr.open_zarr(tmp_path / "all" / "results.zarr") as results:
        run = fields.reshape(-1, *SHAPE)
        np.testing.assert_allclose(results.x_run_mean[0], run.mean(0))
        np.testing.assert_allclose(results.x_run_std[0], run.std(0, ddof=1))
        ranked = np.sort(run, axis=0)
        assert ((ranked[31] <= results.x_run_p50[0]) & (results.x_run_p50[0] <= ranked[34])).all()
        february = fields[:, 16:].reshape(-1, *SHAPE)
        np.testing.assert_allclose(results.x_month_mean[0], february.mean(0))
        assert results.x_month_mean.shape == (1, *SHAPE)
        assert list(results.steps_month) == [18]
        np.testing.assert_allclose(results.x_clim_dayofyear_max[2], fields[:, 8:12].max((0, 1)))
        np.testing.assert_allclose(results.x_running2day_max[0], fields[:, 16:].max((0, 1)))
        np.testing.assert_allclose(results.x_steps8_mean[0], fields[:, 16:].mean((0, 1)))
        np.testing.assert_allclose(results.txx_run_mean[0], np.concatenate([days(field) for field in fields]).mean(0))
        assert (results.txx_run_count == 18).all()
        assert results.attrs["bbflow_merged_runs"] == 3


@pytest.mark.parametrize(("last", "code"), [(2.0, 0), (float("nan"), INCOMPLETE)])
def test_a_merge_has_the_streams_attributes_and_lacks_what_its_runs_lack(tmp_path, capsys, last, code):
    told = {
        "time/units": "days since 2000-01-01",
        "t/units": "K",
        "u/units": "m",
        "/basePath": "/data/",
        "a/b": "of none",
    }
    config = {"operators": {"t": ["mean"]}, "windows": ["run"]}
    for name, times in (("one", [0.0, 1.0, 2.0]), ("two", [0.0, 1.0, last])):
        fields = {"t": np.ones((3, 4)), "u": np.ones((3, 4))}
        streams.store(tmp_path / name, fields, times, told)
        outcome, _ = streams.analysed(tmp_path / name, config)
    assert outcome.complete == (code == 0)
    outputs = [str(tmp_path / name / "out") for name in ("one", "two")]
    assert main(["merge", *outputs, "--output", str(tmp_path / "all")]) == code
    assert (f"the results of {outputs[1]}/{STATE_FILE} are incomplete" in capsys.readouterr().err) == bool(code)
    with xr.open_zarr(tmp_path / "all" / "results.zarr") as results:
        assert (results.attrs["/basePath"], results.attrs["a/b"]) == ("/data/", "of none")
        assert "u/units" not in results.attrs
        assert results.attrs["bbflow_status"] == ("incomplete" if code else "complete")


def test_merges_in_any_tree_are_the_same(members, tmp_path):
    merge_states(members[:2], tmp_path / "two")
    merged = merge_states([members[2], tmp_path / "two"], tmp_path / "tree").state
    flat = merge_states(members, tmp_path / "flat").state
    assert merged.runs == flat.runs == 3
    expected = shards.statistics(flat)
    for place, result in shards.statistics(merged).items():
        np.testing.assert_allclose(result, expected[place], err_msg=str(place))


def test_runs_that_follow_each_other_merge_where_all_of_a_span_is_there(tmp_path):
    field = member(0)
    shards.run(tmp_path / "first", CONFIG, field[:14], HOURS[:14], ONE)
    shards.run(tmp_path / "second", CONFIG, field[14:], HOURS[14:], TWO)
    merged = merge_states([tmp_path / "second", tmp_path / "first"], tmp_path / "both")
    words = ["merge", str(tmp_path / "first"), str(tmp_path / "second"), "--output", str(tmp_path / "told")]
    assert main(words) == INCOMPLETE
    found = shards.statistics(merged.state)
    np.testing.assert_allclose(found["x", "run", (), "mean"], field.mean(0).reshape(-1))
    np.testing.assert_allclose(found["x", "clim_dayofyear", (1, 31), "max"], field[12:16].max(0).reshape(-1))
    # January was open at the first one's end, but the second one has had steps in it and published them.
    assert [span for span in merged.left_out if span.startswith("month")] == ["month 2001-01"]
    np.testing.assert_allclose(found["x", "month", (2001, 2), "mean"], field[16:].mean(0).reshape(-1))


def test_operators_that_need_the_order_merge_along_it_only(tmp_path):
    field = member(5)
    whole = shards.run(tmp_path / "whole", SPELLS, field, HOURS, ONE)
    shards.run(tmp_path / "first", SPELLS, field[:9], HOURS[:9], ONE)
    shards.run(tmp_path / "second", SPELLS, field[9:], HOURS[9:], TWO)
    merged = merge_states([tmp_path / "second", tmp_path / "first"], tmp_path / "both").state
    ((place, expected),) = shards.statistics(whole).items()
    np.testing.assert_array_equal(shards.statistics(merged)[place], expected)
    with pytest.raises(ConfigError, match=r"longest_spell can be merged of runs that follow each other only"):
        merge_states([tmp_path / "whole", tmp_path / "first"], tmp_path / "none")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            {"operators": {"x": ["mean"], "txx": CONFIG["operators"]["txx"]}},
            "has max, mean, p50, std, but the configuration has mean: ",
        ),
        ({"windows": ["month", "run"]}, "running2day, steps8, but the configuration has month, run: "),
        ({"operators": {"x": CONFIG["operators"]["x"]}}, "operators of txx are in"),
        ({"operators": CONFIG["operators"] | {"txx": {"of": "x * 2", "operators": ["mean"]}}}, "txx: of: the state"),
    ],
)
def test_a_state_of_another_configuration_is_refused(members, tmp_path, change, says):
    config = {"stream": "fields", "output": str(tmp_path)} | CONFIG | change
    with pytest.raises(ConfigError, match=re.escape(says)):
        check_continued(parse_config(config), members[0])
    shards.run(tmp_path / "other", CONFIG | change, member(0), HOURS, ONE)
    with pytest.raises(ConfigError, match=f"go together only|{re.escape(says)}"):
        merge_states([members[0], tmp_path / "other"], tmp_path / "both")


def test_other_shapes_and_calendars_and_the_same_state_twice_are_refused(members, tmp_path, monkeypatch):
    shards.run(tmp_path / "small", CONFIG, member(0)[:, :2], HOURS, [("a", (0, 0), (2, 4))])
    with pytest.raises(ConfigError, match=r"shape: the state .* has \(2, 4\)|has \(3, 4\)"):
        merge_states([members[0], tmp_path / "small"], tmp_path / "both")
    monkeypatch.setattr(shards, "CLOCK", shards.Clock(shards.CLOCK.units, "360_day"))
    shards.run(tmp_path / "calendar", CONFIG, member(0), HOURS, ONE)
    with pytest.raises(ConfigError, match="has the calendar"):
        merge_states([members[0], tmp_path / "calendar"], tmp_path / "both")
    with pytest.raises(ConfigError, match="two states or more, each given once"):
        merge_states([members[0], members[0] / STATE_FILE], tmp_path / "both")


def test_each_does_not_go_on_from_a_merged_state(members, tmp_path):
    merge_states(members, tmp_path / "merged")
    config = parse_config({"stream": "fields", "output": str(tmp_path)} | CONFIG)
    with pytest.raises(ConfigError, match="is merged of 3 runs: txx can't continue from it"):
        check_continued(config, tmp_path / "merged")


def damaged(content, how):
    if how == "changed":
        return content[:-7] + bytes([content[-7] ^ 1]) + content[-6:]
    return {
        "cut": content[:-100],
        "prefix": content[:20],
        "longer": content + b"more",
        "header": content[:90] + bytes([content[90] ^ 1]) + content[91:],
        "foreign": b"CDF\x01" + content[4:],
        "empty": b"",
        "version": content[:12] + (3).to_bytes(4, "little") + content[16:],
    }[how]


@pytest.mark.parametrize(
    ("how", "error", "says"),
    [
        ("cut", DamagedError, "is damaged: it has"),
        ("prefix", DamagedError, "is damaged: it has 20 bytes"),
        ("longer", DamagedError, "is damaged: it has"),
        ("changed", DamagedError, "is damaged: its checksum"),
        ("header", DamagedError, "is damaged: its checksum"),
        ("foreign", ConfigError, "isn't a state of bbflow"),
        ("empty", ConfigError, "isn't a state of bbflow"),
        ("version", ConfigError, "is a state of version 3, but this bbflow reads version 2"),
    ],
)
def test_a_file_that_is_damaged_or_another_is_an_error(members, tmp_path, how, error, says):
    path = tmp_path / STATE_FILE
    path.write_bytes(damaged((members[0] / STATE_FILE).read_bytes(), how))
    with pytest.raises(BbflowError, match=says) as caught:
        read_state(tmp_path)
    assert type(caught.value) is error
    assert str(path) in str(caught.value)


def test_a_state_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(ConfigError, match="the first run of a chain has none"):
        read_state(tmp_path)


OWN = """
from pathlib import Path

import numpy as np

Path({marker!r}).touch()
commutes = True


def map(values, valid, times):
    return {{"total": np.where(valid, values, 0.0).sum(0)}}


def combine(left, right):
    return {{"total": left["total"] + right["total"]}}


def finalize(state):
    return state["total"]
"""


def naming(state, operators, folder):
    """Write a state anew that names other operators: what guards it is a checksum, which anybody can make."""
    said = state.read_bytes()
    magic, version, header_bytes, data_bytes, _, data_check = PREFIX.unpack_from(said)
    header = msgspec.msgpack.decode(said[PREFIX.size : PREFIX.size + header_bytes])
    begin = -(-(PREFIX.size + header_bytes) // PAGE_BYTES) * PAGE_BYTES
    header["content"]["operators"] = operators
    changed = msgspec.msgpack.encode(header)
    prefix = PREFIX.pack(magic, version, len(changed), data_bytes, zlib.crc32(changed), data_check)
    room = -(-(PREFIX.size + len(changed)) // PAGE_BYTES) * PAGE_BYTES
    folder.mkdir()
    path = folder / STATE_FILE
    path.write_bytes((prefix + changed).ljust(room, b"\0") + said[begin:])
    return path


@pytest.mark.parametrize("nested", [False, True], ids=["a statistic", "within a diagnostic"])
def test_a_state_has_no_code_loaded_that_nobody_asked_for(members, tmp_path, nested):
    here = tmp_path / "here"
    here.mkdir()
    (here / "sharing.py").write_text(OWN.format(marker=str(tmp_path / "ran")))
    names = ["sharing:share"]
    named = {"of": "x", "operators": names, "windows": ["run"]} if nested else names
    states = [naming(member / STATE_FILE, {"x": named}, tmp_path / member.name) for member in members[:2]]
    command = [sys.executable, "-m", "bbflow", "merge", *map(str, states), "--output", str(tmp_path / "all")]
    done = subprocess.run(command, cwd=here, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == os.EX_USAGE, done.stderr
    assert "needs the operator 'sharing:share'" in done.stderr
    assert "--operators DIRECTORY" in done.stderr
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "all").exists()


def test_operators_of_ones_own_are_merged_from_the_directory_that_is_named(tmp_path, monkeypatch):
    own = tmp_path / "own"
    (own / "adding").mkdir(parents=True)
    (own / "adding" / "__init__.py").touch()
    (own / "adding" / "total.py").write_text(OWN.format(marker=str(tmp_path / "ran")))
    monkeypatch.syspath_prepend(str(own))
    config = {"windows": ["run"], "operators": {"x": ["adding:total"]}}
    for number in range(2):
        shards.run(tmp_path / str(number), config, member(number), HOURS, ONE)
    states = [str(tmp_path / str(number)) for number in range(2)]
    assert main(["merge", *states, "--output", str(tmp_path / "none")]) == os.EX_USAGE
    assert main(["merge", *states, "--output", str(tmp_path / "all"), "--operators", str(own)]) == 0
    with xr.open_zarr(tmp_path / "all" / "results.zarr") as results:
        (name,) = (name for name in results.data_vars if name.startswith("x_run"))
        np.testing.assert_allclose(results[name][0], member(0).sum(0) + member(1).sum(0))
