"""Options that would have no effect are refused, and each refusal is one line."""

import os
import subprocess
import sys
from io import StringIO

import pytest

from bbflow.cli import main
from testsupport.waiting import PATIENCE_S

CONFIG = "stream: s\noutput: o\noperators: {x: [mean]}\nwindows: [run]\n"
NOWHERE = {
    "operators --cdo mean": "leave it or 'mean' out",
    "check c.yml --storage .": "--storage has no effect without --site",
    "run c.yml mpiexec -n 4 ./m": "stands after --, as in 'bbflow run c.yml -- mpiexec -n 4 ./m'",
    "phase run ocean cp a b": "as in 'bbflow phase run ocean -- cp a b'",
    "status --contact c -- true": "bbflow status runs no program",
    "ensemble status c.yml -- true": "bbflow ensemble runs no program",
    "phase list -- true": "bbflow phase runs no program",
    "run c.yml --take-over -- true": "--take-over has no effect without --contact",
    "run c.yml --member 1 --no-report -- true": "--no-report has no effect with --member",
    "stage data --to bb --capacity 1MiB --slots 2": "--slots has no effect without --plan",
    "stage data --to bb --capacity 1MiB --file-system pfs": "--file-system has no effect without --phases",
    "up --contact c --threads 3": "--threads has no effect without --scheduler-file",
    "up --contact c --files-policy auto": "--files-policy has no effect without --files",
    "node --name a --contact c --subtree /x": "--subtree has no effect without --files",
    "dask worker --contact c --scheduler-file f --dashboard :1": "--dashboard has no effect for a worker",
    "dask scheduler --contact c --scheduler-file f --threads 1": "--threads has no effect for a scheduler",
    "simulate --keys testbed": "leave 'testbed' out",
    "simulate --keys --picture p.png": "--picture has no effect with --keys",
    "plan eley-2 --json --table": "--table has no effect with --json",
    "mount --unmount d --log f": "--log has no effect with --unmount",
    "mount c d --foreground --log f": "--log has no effect with --foreground",
    "mount c d --unmount d": "--unmount DIRECTORY takes nothing else",
}


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c.yml").write_text(CONFIG)
    (tmp_path / "data").touch()
    return tmp_path


@pytest.mark.parametrize("words", NOWHERE)
def test_an_option_without_effect_is_refused(here, capsys, words):
    assert main(words.split()) == os.EX_USAGE
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("bbflow: ")
    assert NOWHERE[words] in line
    assert sorted(path.name for path in here.iterdir()) == ["c.yml", "data"]


@pytest.mark.parametrize("has_directory", [True, False])
def test_an_output_that_is_a_file_is_refused_with_what_to_do(here, capsys, monkeypatch, has_directory):
    (here / "o").touch()
    monkeypatch.setattr("bbflow.cli._has_directory", lambda: has_directory)
    assert main(["demo", "--output", "o"]) == os.EX_IOERR
    assert "o: File exists: something else is there; move it, or give another name" in capsys.readouterr().err


def test_a_fold_that_is_told_no_contact_file_says_so(here, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", StringIO())
    assert main(["fold", "c.yml", "--contact", "-"]) == os.EX_USAGE
    assert "from standard input, and there was none" in capsys.readouterr().err


@pytest.mark.parametrize(("contact", "code"), [("missing", os.EX_NOHOST), ("c.yml", os.EX_USAGE)])
def test_a_run_names_a_wrong_contact_file_once(here, contact, code):
    words = [sys.executable, "-m", "bbflow", "run", "c.yml", "--contact", contact, "--", "true"]
    done = subprocess.run(words, stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S)
    assert done.returncode == code
    told = done.stderr.splitlines()
    assert [line for line in told if contact in line] == told[-1:]
    assert not (here / "o").exists()


@pytest.mark.parametrize("words", [["check", "a\nb"], ["merge", "a\nb", "--output", "m"]])
def test_a_name_with_the_end_of_a_line_in_it_is_told_in_one(here, capfd, words):
    assert main(words) == os.EX_USAGE
    [line] = capfd.readouterr().err.splitlines()
    assert r"a\nb" in line
