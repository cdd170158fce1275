"""Sort and Wordcount by their command, run to the end and checked without Spark."""

import subprocess
import sys

import pytest
from running import RUN_S, Outcome, environment


def run(*words):
    command = [sys.executable, "-m", "bbflow_workflows.spark", *map(str, words), "--conf", "spark.ui.enabled=false"]
    return subprocess.run(command, capture_output=True, text=True, timeout=RUN_S, env=environment())


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts") / "texts"
    written = run("write", folder, "--files", 4, "--size", "512KiB")
    assert written.returncode == 0, written.stderr
    return folder


@pytest.mark.parametrize("api", ["rdd", "dataframe"])
@pytest.mark.parametrize(("app", "said"), [("sort", "lines in order"), ("wordcount", "counts are right")])
def test_the_workloads_of_the_paper_give_what_is_right_from_the_burst_buffer(tmp_path, texts, app, said, api):
    place = ("--burst-buffer", tmp_path / "bb", "--capacity", "64MiB")
    done = run(app, texts, "--output", tmp_path / "out", "--api", api, "--check", *place)
    assert done.returncode == 0, done.stderr
    assert said in done.stdout
    reads = Outcome(0, "", tmp_path / "bb/notes").reads
    assert reads[True] >= (8 if app == "sort" else 4), "a sort reads twice"
    assert reads[False] == 0
