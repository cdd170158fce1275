"""An output in a bucket: what has arrived there is no longer here, and all that reads it goes on."""

import contextlib
import os
import re
from types import SimpleNamespace

import numpy as np
import pytest
import streams
import xarray as xr
import zarr
from zarr.storage import ObjectStore

from bbflow import open_results
from bbflow.cli import main
from bbflow.configuring.config import parse_config
from bbflow.configuring.results_place import work_of
from bbflow.errors import ConfigError
from bbflow.host.belongings import claim
from bbflow.report.results_reader import read_results
from bbflow.stores.moved import bring, is_moved, place_of
from bbflow.stores.objects import upload_parts
from bbflow.stores.sources import Sources
from bbflow.transit.output.copying import Copying, CopyTimes, check_copy, check_output
from bbflow.transit.output.moving import WINDOW, Digest, Settled, give_up
from bbflow.zarr_store.growing import GrowingZarr
from testsupport.object_server import objects_in, refusing_keys

pytestmark = pytest.mark.usefixtures("known_endpoint")

FUNCTION = """
def halved(dataset):
    return (dataset["tas_day_mean"] / 2).rename("half")
"""
ONCE = CopyTimes(last_tries_s=(0.0,), settled_s=0.001)
BY_HAND = CopyTimes(look_s=3600, settled_s=0.001)
"""Nothing is looked at unless the test asks."""


def stored(endpoint, path):
    return ObjectStore(objects_in(endpoint, path), read_only=True)


def moved_files(store):
    return {path.relative_to(store).as_posix() for path in store.rglob("c.*") if is_moved(path)}


def written(path, spans, first=0):
    store = GrowingZarr(path)
    if store.is_new:
        store.create("time", ["time"], (0,), "f8", {}, (512,))
        store.create("x", ["x"], (3,), "f8", {}, (3,))
        store.write("x", 0, np.arange(3.0))
        store.create("v", ["time", "x"], (0, 3), "f8", {})
    for at in range(first, first + spans):
        store.write("v", at, np.full((1, 3), float(at)))
        store.write("time", at, np.array([float(at)]))
    store.commit()
    return store


TAS = np.random.default_rng(3).normal(280, 3, (24, 8, 16)).astype("f4")
ATTRIBUTES = {"time/units": "hours since 2001-01-01", "tas/_ARRAY_DIMENSIONS": ["lat", "lon"]}
HOURS = 6.0 * np.arange(24)
FIELDS = {"tas": TAS, "lat": np.linspace(-70, 70, 8), "lon": np.arange(16) * 22.5}
WHOLE = {
    "operators": {
        "tas": {"operators": ["mean", "max"]},
        "grid": {"of": "tas", "space": {"remapnn": "r8x4", "pyramid": True}, "operators": ["mean"]},
    },
    "windows": ["day", "run"],
    "raw": {"variables": ["tas"], "shard": "8KiB"},
    "functions": {"halves": {"call": "halving:halved", "results": ["tas_day_mean"]}},
}
STORES = ("results.zarr", "raw.zarr", "functions/halves.zarr")


WHOLE_OR_CUT = pytest.mark.parametrize(
    "chunks",
    [pytest.param({"time": 1}, marks=pytest.mark.slow, id="whole"), pytest.param({"time": 4, "lat": 4}, id="cut")],
)


@WHOLE_OR_CUT
def test_an_output_in_a_bucket_has_what_one_on_a_file_system_has_and_that_is_not_here(endpoint, tmp_path, chunks):
    (tmp_path / "halving.py").write_text(FUNCTION)
    name, config = f"both{len(chunks)}", WHOLE | {"results": {"chunks": chunks, "shard": "4KiB"}}
    for folder, own in (("here", {}), ("there", {"output": f"s3://bucket/{name}"})):
        streams.store(tmp_path / folder, FIELDS, HOURS, ATTRIBUTES, steady=("lat", "lon"))
        if own:
            own["work"] = str(tmp_path / folder / "out")
        streams.analyse(tmp_path / folder, config | own, modules=tmp_path)
    here, work = tmp_path / "here" / "out", tmp_path / "there" / "out"
    for store in STORES:
        with xr.open_zarr(stored(endpoint, f"{name}/{store}")) as there, xr.open_zarr(here / store) as wanted:
            xr.testing.assert_equal(there.load(), wanted.load())
    for pyramid in (here / "pyramids").iterdir():
        for level in ("0", "1"):
            path = f"{name}/pyramids/{pyramid.name}"
            with (
                xr.open_zarr(stored(endpoint, path), group=level) as there,
                xr.open_zarr(pyramid, group=level) as wanted,
            ):
                xr.testing.assert_equal(there.load(), wanted.load())
    left = {path.parent.name for path in work.rglob("c.*") if not is_moved(path)}
    fields = {name for name in left if re.match(r"(tas|grid)_(day|run|mean)|half", name)}
    last = {f"{name}_{window}" for name in ("tas", "grid") for window in ("run_mean", "run_max", "day_mean", "day_max")}
    assert fields <= (last if len(chunks) > 1 else set()), "of files of several spans the last isn't complete"
    assert [path.name for path in (work / "raw.zarr" / "tas").glob("c.*") if not is_moved(path)] == ["c.1.0.0"]
    # What reads its own store goes on, and no other reader takes what isn't here for values.
    xr.testing.assert_equal(open_results(str(work / "results.zarr")).load(), open_results(here / "results.zarr").load())
    assert len(read_results(work / "results.zarr").statistics) == len(read_results(here / "results.zarr").statistics)
    for store, name in (("results.zarr", "tas_day_mean"), ("raw.zarr", "tas")):
        for part in (..., 0, slice(1, 3)):
            with pytest.raises(ValueError, match=r"reshape|divisor|too short"):
                zarr.open_group(work / store, mode="r")[name][part]


@WHOLE_OR_CUT
def test_a_chained_job_goes_on_in_its_objects_in(endpoint, tmp_path, chunks):
    config = {
        "operators": {"tas": {"operators": ["mean"]}},
        "windows": ["day", "clim_hour"],
        "results": {"chunks": chunks, "shard": "4KiB"},
    }
    for name, own in (("here", {}), (f"chain{len(chunks)}", {"output": f"s3://bucket/chain{len(chunks)}"})):
        for steps in (slice(0, 10), slice(10, 24)):  # the second begins within a day
            folder = tmp_path / name / str(steps.start)
            streams.store(folder, {"tas": TAS[steps]}, HOURS[steps], ATTRIBUTES)
            out = {"work" if own else "output": str(tmp_path / name / "out")} | own
            more = {"continue": str(tmp_path / name / "out")} if steps.start else {}
            (folder / "out").symlink_to(tmp_path / name / "out")
            streams.analyse(folder, config | out | more)
    with (
        xr.open_zarr(stored(endpoint, f"{name}/results.zarr")) as there,
        xr.open_zarr(tmp_path / "here" / "out" / "results.zarr") as wanted,
    ):
        xr.testing.assert_equal(there.load(), wanted.load())


def test_only_what_is_complete_and_not_needed_goes(endpoint, tmp_path):
    needed = {"time": 2.0}
    written(tmp_path / "results.zarr", 5)
    settled = needed.__getitem__
    follower = Copying(tmp_path, "s3://bucket/needed", moves=True, settled=settled, times=BY_HAND)
    follower.look()
    assert moved_files(tmp_path / "results.zarr") == {"v/c.0.0", "v/c.1.0"}
    needed["time"] = 4.0  # without a commit
    follower.look()
    assert moved_files(tmp_path / "results.zarr") == {f"v/c.{at}.0" for at in range(4)}
    assert not follower.finish()
    assert moved_files(tmp_path / "results.zarr") == {f"v/c.{at}.0" for at in range(5)}
    assert place_of(tmp_path / "results.zarr") == "s3://bucket/needed/results.zarr"
    bring(tmp_path / "results.zarr" / "v" / "c.3.0")
    assert (GrowingZarr(tmp_path / "results.zarr").chunks("v").read(3) == 3).all()


def test_a_file_of_several_spans_goes_once_all_are_shown_but_axes_stay(tmp_path):
    store = written(tmp_path / "results.zarr", 5)
    store.create("packed", ["time", "x"], (5, 3), "f4", {WINDOW: "day"}, (2, 3))
    store.commit()
    settled = Settled((store.path / "zarr.json").read_bytes(), lambda _: 5)
    names = [f"packed/c.{at}.0" for at in range(3)] + ["time/c.0"]
    assert list(filter(settled.has, names)) == names[:2]
    assert settled.stub_bytes(names[0]) == 0


def test_a_file_that_took_the_place_of_the_one_that_was_copied_stays(tmp_path):
    path = tmp_path / "c.0"
    path.write_bytes(b"old")
    status, other = path.stat(), path.open("rb")
    os.utime(tmp_path / "c.0", ns=(1, 1))
    assert not give_up(path, status.st_mtime_ns, 3, 0)
    os.link(path, tmp_path / "c.1")
    assert not give_up(path, 1, 3, 0), "two names, one of which may not have been copied"
    (tmp_path / "c.1").unlink()
    assert give_up(path, 1, 3, 0)
    assert is_moved(path)
    other.close()


@pytest.mark.parametrize("size", [3, 10 << 20, (10 << 20) + 1, 25 << 20])
def test_a_digest_is_the_etag_that_s3_has(endpoint, tmp_path, size):
    content, sources = np.random.default_rng(size).bytes(size), Sources()
    digest = Digest(upload_parts(size)[0])
    with sources.create(f"s3://bucket/etag/{size}", size) as target:
        for begin in range(0, size, 8 << 20):
            target.write(content[begin : begin + (8 << 20)])
            digest.update(content[begin : begin + (8 << 20)])
    assert objects_in(endpoint).head(f"etag/{size}")["e_tag"] == f'"{digest.value}"'


def test_what_did_not_arrive_as_it_was_sent_stays_and_is_said(endpoint, tmp_path):
    class Damaging(Sources):
        @contextlib.contextmanager
        def create(self, url, size_bytes=0):
            with super().create(url, size_bytes) as target:
                yield SimpleNamespace(write=lambda content: target.write(content[::-1] if "/v/c." in url else content))

    written(tmp_path / "results.zarr", 2)
    [error] = Copying(tmp_path, "s3://bucket/wrong", moves=True, times=ONCE, sources=Damaging()).finish()
    assert "results.zarr/v/c.1.0 isn't what was sent; what it lacks is in" in error
    assert moved_files(tmp_path / "results.zarr") <= {"v/c.0.0"}, "zeros are the same backwards"


def test_a_bucket_that_fails_loses_nothing_and_the_rest_is_brought_later(endpoint, tmp_path, monkeypatch, capsys):
    claim(tmp_path / "out")
    written(tmp_path / "out" / "results.zarr", 3)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    [error] = Copying(tmp_path / "out", "s3://bucket/fails", moves=True, times=ONCE).finish()
    assert re.fullmatch(
        r"s3://bucket/fails: the copy isn't complete: no S3 server answers.*run 'bbflow upload .*out'", error
    )
    assert not moved_files(tmp_path / "out" / "results.zarr")
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    assert main(["upload", str(tmp_path / "out")]) == 0
    assert "is in s3://bucket/fails" in capsys.readouterr().out
    assert (zarr.open_group(stored(endpoint, "fails/results.zarr"), mode="r")["v"][:, 0] == [0, 1, 2]).all()
    assert main(["upload", str(tmp_path)]) == 64


def test_a_key_that_is_rejected_in_the_middle_loses_nothing(endpoint, tmp_path, capsys):
    claim(tmp_path / "out")
    store = tmp_path / "out" / "results.zarr"
    written(store, 2)
    assert not Copying(tmp_path / "out", "s3://bucket/expired", moves=True).finish()
    gone = moved_files(store)
    written(store, 2, first=2)
    with refusing_keys(endpoint):
        [error] = Copying(tmp_path / "out", "s3://bucket/expired", moves=True, times=ONCE).finish()
        assert main(["upload", str(tmp_path / "out")]) != 0
        assert "no permission" in "".join(capsys.readouterr())
    assert re.fullmatch(r"s3://bucket/expired: the copy isn't complete: .*no permission.*'bbflow upload .*out'", error)
    assert moved_files(store) == gone
    assert main(["upload", str(tmp_path / "out")]) == 0
    assert (zarr.open_group(stored(endpoint, "expired/results.zarr"), mode="r")["v"][:, 0] == [0, 1, 2, 3]).all()


def test_files_that_are_gone_from_the_bucket_are_said(endpoint, tmp_path):
    written(tmp_path / "results.zarr", 3)
    assert not Copying(tmp_path, "s3://bucket/gone", moves=True).finish()
    objects_in(endpoint).delete("gone/results.zarr/v/c.1.0")
    [error] = Copying(tmp_path, "s3://bucket/gone", moves=True).finish()
    assert error == "s3://bucket/gone/results.zarr: 1 files that were there are gone, the first is v/c.1.0"


def test_a_bucket_that_goes_before_all_is_seen_to_be_there_is_said(endpoint, tmp_path):
    written(tmp_path / "results.zarr", 3)

    class Going(Sources):
        def tree(self, url):
            raise ConnectionError("no S3 server answers")

    [error] = Copying(tmp_path, "s3://bucket/goes", moves=True, times=ONCE, sources=Going()).finish()
    assert error.startswith(
        "s3://bucket/goes: whether all is there can't be seen: no S3 server answers; what it lacks is in"
    )


def test_what_is_in_the_bucket_already_is_refused_before(endpoint, tmp_path):
    def config(prefix, work="work"):
        told = {"stream": "s", "operators": {"tas": ["mean"]}, "output": f"s3://bucket/{prefix}"}
        return parse_config(told | {"work": str(tmp_path / work)})

    (tmp_path / "work").mkdir()
    written(tmp_path / "work" / "results.zarr", 2)
    assert not Copying(tmp_path / "work", "s3://bucket/first", moves=True).finish()
    check_output(config("first"))  # its own
    with pytest.raises(ConfigError, match=r"first/results.zarr is there from an earlier run: give another output, or"):
        check_output(config("first", "other"))
    with pytest.raises(ConfigError, match=r"work has the rest of s3://bucket/first, not of s3://bucket/second: give"):
        check_output(config("second"))
    objects_in(endpoint).put("theirs/results.zarr/zarr.json", b'{"zarr_format": 3, "node_type": "group"}')
    with pytest.raises(ConfigError, match=r"theirs/results.zarr is in the way, and bbflow didn't make it"):
        check_copy(config("theirs", "third"))
    with pytest.raises(ConfigError, match=r"^output: s3://nowhere/x can't be written: .*there is no bucket 'nowhere'"):
        check_copy(parse_config({"stream": "s", "operators": {"tas": ["mean"]}, "output": "s3://nowhere/x"}))
    check_output(config("first", "other"), overwrite=True)
    assert not [item for page in objects_in(endpoint).list("first") for item in page]
    with pytest.raises(ConfigError, match=r"first/results.zarr is gone; .*work has the rest of it"):
        check_output(config("first"))


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({"copy_to": "s3://b/y"}, "copy_to: the output is in a bucket already"),
        ({"netcdf": True}, "netcdf: such files aren't written into a bucket"),
        ({"raw": {"dedup": True}}, "raw: dedup compares with steps that have gone to the bucket"),
        ({"output": "out", "work": "w"}, "'work' is for an output in a bucket"),
        ({"output": "s3://b x"}, "isn't a place for results"),
    ],
)
def test_what_an_output_in_a_bucket_can_not_have_is_refused(keys, why):
    with pytest.raises(ConfigError, match=why):
        parse_config({"stream": "s", "operators": {"tas": ["mean"]}, "output": "s3://b/x"} | keys)


def test_the_work_directory_is_named_after_the_place(tmp_path):
    told = {"stream": "s", "operators": {"tas": ["mean"]}, "output": "s3://b/x/y/", "continue": "s3://b/x/y"}
    config = parse_config(told)
    assert (config.copy_to, config.moves) == ("s3://b/x/y", True)
    assert config.output == config.continued == work_of("s3://b/x/y")
    assert str(config.output) == "bbflow-work/b/x/y"


def test_raw_steps_are_copied_once_more_only_when_as_much_is_new(endpoint, tmp_path):
    follower = Copying(tmp_path, "s3://bucket/due", moves=True, times=BY_HAND)

    def there():
        return {name for path in objects_in(endpoint).list("due") for item in path if "/v/c" in (name := item["path"])}

    written(tmp_path / "raw.zarr", 1)
    follower.look()
    assert there() == {"due/raw.zarr/v/c.0.0"}
    left = sum(path.stat().st_size for path in (tmp_path / "raw.zarr").rglob("c.*"))
    written(tmp_path / "raw.zarr", 1, first=1)  # 24 bytes
    follower.look()
    assert len(there()) == 1 < left / 24
    written(tmp_path / "raw.zarr", left // 24, first=2)
    follower.look()
    assert len(there()) == 2 + left // 24
    assert not follower.finish()
