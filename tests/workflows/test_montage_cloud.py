"""Montage from a bucket to a bucket: staged, and over the mount; a real S3 server in a process of its own."""

import os
import subprocess
import sys
from contextlib import ExitStack
from functools import partial
from tempfile import TemporaryDirectory

import pytest
from bbflow_workflows import montage
from bbflow_workflows.montage import dag, places, planned
from bbflow_workflows.montage.__main__ import main

from bbflow.errors import ConfigError
from bbflow.events import read_events
from bbflow.simulate.measured import profile_of_events
from bbflow.staging import Sources
from benchmarks.montage_job import TOOL
from testsupport.mounts import missing
from testsupport.object_server import credentials_of

SMALL = ["--rows", "1", "--columns", "2", "--pixels", "100", "--stars", "80"]
MOSAIC = ["mosaic.fits", "mosaic_area.fits"]


@pytest.fixture(scope="module")
def bucket(endpoint):
    """Point S3 clients of this process and its children to a server with a bucket."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in credentials_of(endpoint).items():
            patch.setenv(name, value)
        yield "s3://bucket"


def run(*words):
    tool = ["--tool", TOOL] if words[0] == "mosaic" else []
    command = [sys.executable, "-m", "bbflow_workflows.montage", *map(str, words), *tool]
    environment = os.environ | {"PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def bbflow(*words):
    command = [sys.executable, "-m", "bbflow", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def local(bucket, tmp_path_factory):
    """The same tiles in the bucket and in a directory, and the mosaic of the latter, made without a workflow."""
    directory = tmp_path_factory.mktemp("local")
    assert "2 tiles of 100 x 100 in s3://bucket/survey" in run("tiles", f"{bucket}/survey", *SMALL)
    montage.make_tiles(directory / "survey", montage.Survey(rows=1, columns=2, pixels=100, stars=80))
    # MontagePy gives no memory back, and this process has further tests to run.
    job = [sys.executable, "-m", "benchmarks.montage_job", directory / "survey", directory / "out"]
    subprocess.run(job, check=True, timeout=600, stdout=subprocess.DEVNULL)
    return directory


def equal_to(local, url):
    """Compare all bytes of the objects with the files of the local run."""
    with places.at_hand([f"{url}/{name}" for name in MOSAIC]) as found:
        return all(path.read_bytes() == (local / "out" / path.name).read_bytes() for path in found)


def keys(url):
    return sorted(file.name for file in Sources().tree(url))


@pytest.mark.slow
def test_a_mosaic_goes_from_bucket_to_bucket_by_staging_and_is_the_local_one(bucket, local, tmp_path):
    said = run("mosaic", f"{bucket}/survey", "--output", f"{bucket}/staged", "--burst-buffer", tmp_path,
               "--events", tmp_path / "events")  # fmt: skip
    assert "montage: s3://bucket/staged/mosaic.fits and mosaic.png in" in said
    assert "times flatter" in said
    assert keys(f"{bucket}/staged") == ["mosaic.fits", "mosaic.png", "mosaic_area.fits"]
    assert equal_to(local, f"{bucket}/staged")
    assert [path.name for path in tmp_path.iterdir()] == ["events"]
    events = list(read_events(tmp_path / "events"))
    steps = {event["task"] for event in events if event["event"] == "ran"}
    assert steps == {"reproject", "overlaps", "difference", "fit", "model", "correct", "add", "picture"}
    staged = {event["url"] for event in events if event["event"] == "transfer" and event["bytes"]}
    assert staged == {f"{bucket}/survey/{name}" for name in ("region.hdr", "tile_0_0.fits", "tile_0_1.fits")}


@pytest.mark.skipif(bool(missing()), reason=str(missing()))
def test_a_mosaic_goes_from_bucket_to_bucket_over_the_mount_and_is_the_local_one(bucket, local, tmp_path):
    contact, work = tmp_path / "contact.json", tmp_path / "work"
    work.mkdir()
    with ExitStack() as stack:
        # A socket's path has 107 characters at most.
        memory = stack.enter_context(TemporaryDirectory(prefix="bbflow-"))
        nodes = ["--capacity", "256MiB", "--directory", memory, "--files", bucket]
        stack.callback(bbflow, "down", "--contact", contact)
        bbflow("up", "--contact", contact, *nodes, "--files-options=--scratch /mounted/work/*")
        bbflow("mount", contact, work)
        stack.callback(bbflow, "mount", "--unmount", work)
        run("mosaic", f"{bucket}/survey", "--output", f"{bucket}/mounted", "--mount", f"{bucket}={work}",
            "--events", tmp_path / "events")  # fmt: skip
        assert sorted(path.name for path in (work / "mounted/work/projected").iterdir())
        bbflow("files", "flush", "--contact", contact)
    assert keys(f"{bucket}/mounted") == ["mosaic.fits", "mosaic.png", "mosaic_area.fits"]
    assert equal_to(local, f"{bucket}/mounted")
    profile, assumed = profile_of_events(list(read_events(tmp_path / "events")), tmp_path)
    tiles = ["region.hdr", "tile_0_0.fits", "tile_0_1.fits"]
    assert profile["input_bytes"] == sum((local / "survey" / name).stat().st_size for name in tiles)
    assert assumed


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "https://s3.invalid"])
@pytest.mark.parametrize("command", ["tiles", "mosaic from", "mosaic to"])
def test_a_bucket_out_of_reach_is_one_clear_error_before_anything_is_computed(
    local, monkeypatch, capfd, tmp_path, command, url
):
    monkeypatch.setenv("AWS_ENDPOINT_URL", url)
    words = {
        "tiles": ["tiles", "s3://bucket/other"],
        "mosaic from": ["mosaic", "s3://bucket/survey", "--output", str(tmp_path / "out")],
        "mosaic to": ["mosaic", str(local / "survey"), "--output", "s3://bucket/out"],
    }
    assert main(words[command]) == 1
    told = capfd.readouterr()
    assert f"no S3 server answers at {url}: start it, or name another in AWS_ENDPOINT_URL" in told.err
    assert told.err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_pegasus_is_told_where_in_the_bucket_its_inputs_lie(bucket, local, tmp_path):
    tiles = [local / "survey" / name for name in ("tile_0_0.fits", "tile_0_1.fits")]
    found = dag.make_abstract(tiles, local / "survey" / montage.REGION, tmp_path, survey=f"{bucket}/survey")
    pfns = sorted(pfn.pfn for entry in found.replicas.entries.values() for pfn in entry.pfns)
    assert pfns == [
        f"file://{tmp_path}/pairs.json",
        "s3://bucket/survey/region.hdr",
        "s3://bucket/survey/tile_0_0.fits",
        "s3://bucket/survey/tile_0_1.fits",
    ]


def test_what_lies_in_a_bucket_is_found_on_its_mount():
    on_mount = partial(places.on_mount, is_mount="/work".__eq__)
    assert on_mount("s3://b/p/survey", "s3://b/p=/work") == "/work/survey"
    assert on_mount("s3://b/p", "s3://b/p/=/work") == "/work"
    assert on_mount("/pfs/survey", "s3://b/p=/work") == "/pfs/survey"
    assert on_mount("s3://b/survey", None) == "s3://b/survey"


@pytest.mark.parametrize(
    ("mounted", "said"),
    [
        ("work", "write what is mounted where"),
        ("s3://b/other=/work", "isn't below s3://b/other"),
        ("s3://b=/nowhere", "nothing is mounted on /nowhere"),
    ],
)
def test_a_mount_that_can_not_serve_is_one_clear_error(mounted, said):
    with pytest.raises(ConfigError, match=said):
        places.on_mount("s3://b/survey", mounted)


def test_a_bucket_without_tiles_is_one_clear_error(bucket):
    with pytest.raises(ValueError, match=r"s3://bucket/nothing has no tile\*\.fits"):
        places.tiles_in(f"{bucket}/nothing")


def test_keys_that_htcondors_jobs_would_not_see_are_missed_before_anything_is_planned(
    local, bucket, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("AWS_SHARED_CREDENTIALS_FILE", raising=False)
    folder = tmp_path / "peg"
    words = ["pegasus", f"{bucket}/survey", "--output", str(tmp_path / "out"), "--folder", str(folder)]
    assert main([*words, "--burst-buffer", str(tmp_path / "bb")]) == 1
    said = capsys.readouterr().err
    assert "write the keys into ~/.aws/credentials" in said
    assert len(said.splitlines()) == 1
    assert not folder.exists()
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws/credentials").write_text("[default]\naws_access_key_id = key\naws_secret_access_key = secret\n")
    planned.reach_without_keys(f"{bucket}/survey")


def test_pegasus_reads_a_bucket_only_over_a_burst_buffer(tmp_path, capsys):
    folder = tmp_path / "peg"
    words = ["pegasus", "s3://bucket/survey", "--output", str(tmp_path / "out"), "--folder", str(folder)]
    assert main([*words, "--where", "shell"]) == 1
    assert "with --burst-buffer DIR" in capsys.readouterr().err
    assert not folder.exists()
