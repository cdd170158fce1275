import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bbflow.configuring.config import parse_config
from bbflow.host.belongings import claim
from bbflow.net.contact import NodeAddress
from bbflow.run.conducting import _tell_ending
from bbflow.run.course import Course, KeepsRun
from bbflow.run.ending import Left, begin_in, describe_ending, describe_held, is_complete, why_stop
from bbflow.run.strays import statuses_of
from bbflow.store.node import NodeStore
from bbflow.transit.outcome import mark_incomplete
from bbflow.transit.output.claiming import STOP_FILE, written
from bbflow.transit.output.copying import Copying
from bbflow.zarr_store.growing import GrowingZarr, shown_attributes

FAILED = Course(keeping=KeepsRun.RESCUED, failure="the analysis was killed by SIGKILL")
STORE = Path("out/rescued/raw.zarr")


def told(course, left, continued=None):
    return describe_ending(Path("a.yml"), "climate", Path("out"), course, left, continued)


def test_a_run_that_went_well_says_where_its_results_are():
    assert told(Course(), Left(3, 99)) == ["results in out/results.zarr"]


def test_a_simulation_that_was_asked_to_end_is_only_said_to_be_ended_if_it_did_not_end_by_itself():
    lines = told(Course(stopped="f asked in step 5 for the simulation's end: hot", ended_well=True), Left(3, 99))
    assert lines[1] == (
        "the simulation came to its own end with step 99; it was asked to end, since f asked in step 5 for the "
        "simulation's end: hot"
    )
    assert told(Course(stopped="f asked"), Left(3, 99))[1] == "the simulation was ended, since f asked"


def test_results_are_not_named_where_nothing_was_folded():
    assert told(Course(), Left(0, -1)) == ["nothing was folded: there are no results"]


def test_what_a_failed_analysis_left_goes_on_from_its_last_step():
    lines = told(FAILED, Left(2, 23, 106, STORE))
    assert lines[0] == "results in out/results.zarr"
    assert lines[1].endswith("was killed by SIGKILL; they end with step 23")
    again = "bbflow run a.yml --continue out -- bbflow replay out/rescued/raw.zarr --stream climate --after 23"
    assert lines[-1].strip() == again


def test_what_was_rescued_without_results_needs_another_output():
    lines = told(FAILED, Left(0, -1, 106, STORE))
    assert "there are none" in lines[0]
    assert "another output" in lines[-2]
    assert "--continue" not in lines[-1]


def test_what_was_rescued_of_a_run_that_went_on_from_another_goes_on_from_that_too():
    lines = told(FAILED, Left(2, -1, 106, Path("out/rescued/raw_2.zarr")), Path("out/state.bbflow"))
    assert lines[1].endswith("they have no step of this run")
    assert lines[2] == "106 steps that were not folded are in out/rescued/raw_2.zarr, with all variables"
    assert "another output" not in lines[3]
    again = "bbflow run a.yml --continue out/state.bbflow -- bbflow replay out/rescued/raw_2.zarr --stream climate"
    assert lines[4].strip() == again
    assert "another output" in told(FAILED, Left(0, -1, 106, STORE), Path("before"))[2]


def test_what_was_left_out_of_the_rescue_is_named():
    lines = told(FAILED, Left(2, 23, 106, STORE, ("said: text", "own: a local array")))
    assert lines[2].endswith("with all variables but these:")
    assert lines[3:5] == ["  said: text", "  own: a local array"]


def test_steps_that_only_functions_or_raw_lack_are_not_folded_again():
    lines = told(FAILED, Left(2, 11, 12, STORE, folded=12))
    assert lines[1:] == [
        "THE ANALYSIS IS INCOMPLETE: the analysis was killed by SIGKILL; the results end with step 11",
        f"12 steps that are in the results, but that functions or raw lack, are in {STORE}, with all variables",
    ]
    lines = told(FAILED, Left(2, 11, 12, STORE, folded=8))
    assert "4 steps that were not folded are in" in lines[2]
    assert lines[-1].endswith("--after 11")


def test_commands_are_quoted_for_the_shell():
    output = Path("my out")
    lines = describe_ending(Path("the run's.yml"), "a b", output, FAILED, Left(2, 3, 4, output / "rescued/raw.zarr"))
    assert lines[-1].strip() == (
        """bbflow run 'the run'"'"'s.yml' --continue 'my out' -- bbflow replay 'my out/rescued/raw.zarr' """
        "--stream 'a b' --after 3"
    )


def test_an_earlier_run_s_last_step_and_rescued_steps_are_not_those_of_the_run_that_goes_on(tmp_path):
    write(tmp_path / "rescued/raw.zarr", "bbflow_step", 5)
    write(tmp_path / "results.zarr", "time_run", 1, bbflow_last_step=99)
    before = [tmp_path / "rescued/raw.zarr"]
    assert Left.of(tmp_path) == Left(1, 99, 5, *before, folded=5)
    begin_in(tmp_path)
    assert Left.of(tmp_path, before) == Left(1, -1)
    write(tmp_path / "rescued/raw_2.zarr", "bbflow_step", 5)
    assert Left.of(tmp_path, before) == Left(1, -1, 5, tmp_path / "rescued/raw_2.zarr")


def write(path, name, length, **attributes):
    store = GrowingZarr(path)
    store.create(name, ("time",), (0,), "i8", {})
    store.write(name, 0, np.arange(length))
    store.commit(**attributes)


def test_open_windows_that_could_not_be_published_are_said():
    assert "windows that were open" in told(FAILED, Left(2, -1))[1]


def test_what_could_not_be_published_is_published_by_a_command_that_is_said(tmp_path):
    contact, directory = tmp_path / "contact.json", tmp_path / "bb0"
    NodeStore(directory, 1 << 16).close()
    nodes = [NodeAddress("bb0", socket.gethostname(), str(tmp_path / "none.sock"), str(directory), "key")]
    for published, count in ((True, 3), (False, 4)):
        course = Course(keeping=KeepsRun.HELD, published=published)
        lines = describe_held(Path("a.yml"), "climate", contact, nodes, course)
        assert len(lines) == count
        assert any("fold a.yml" in line and line.endswith("--finish") for line in lines) == (not published)
    lost = "WHAT BB NODE bb0 HELD, AND WASN'T PUBLISHED OR RESCUED, IS LOST: "
    os.truncate(directory / "index", 8)
    (line,) = describe_held(Path("a.yml"), "climate", contact, nodes, course)
    assert line.startswith(f"{lost}{directory}/index is damaged (0 of its ")
    (directory / "pool").unlink()
    (line,) = describe_held(Path("a.yml"), "climate", contact, nodes, course)
    assert line.startswith(f"{lost}{directory}/pool was removed, cut or replaced")
    shutil.rmtree(directory)
    assert describe_held(Path("a.yml"), "climate", contact, nodes, course) == [f"{lost}{directory} is gone"]


def test_nodes_whose_contact_file_is_gone_are_asked_nothing(tmp_path):
    assert statuses_of(tmp_path / "contact.json") == []


def test_a_root_that_somebody_has_removed_is_not_made_anew(tmp_path):
    """Else an analysis that continues the store couldn't tell that its arrays are lost."""
    write(tmp_path / "results.zarr", "time_run", 1)
    (tmp_path / "results.zarr/zarr.json").unlink()
    begin_in(tmp_path)
    mark_incomplete(tmp_path, "it was killed")
    assert not (tmp_path / "results.zarr/zarr.json").exists()


def test_a_file_of_the_users_that_is_called_as_a_stop_is_neither_read_nor_removed(tmp_path):
    (tmp_path / ".stop").write_text("mine")
    assert why_stop(tmp_path) == ""
    begin_in(tmp_path)
    assert (tmp_path / ".stop").read_text() == "mine"


def test_a_stop_of_ours_is_read_and_goes_when_another_run_begins(tmp_path):
    claim(tmp_path, *written(STOP_FILE))
    (tmp_path / ".stop").write_text("hot")
    assert why_stop(tmp_path) == "hot"
    begin_in(tmp_path)
    assert why_stop(tmp_path) == ""
    assert not (tmp_path / ".stop").exists()


def test_the_last_publication_says_that_what_was_folded_is_lost_with_it(tmp_path):
    config = tmp_path / "analysis.yml"
    config.write_text(f"stream: s\noutput: {tmp_path}/out\noperators: {{x: [mean]}}\n")
    words = [
        sys.executable,
        "-m",
        "bbflow",
        "fold",
        config,
        "--contact",
        tmp_path / "none",
        "--output-held",
        "--finish",
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == os.EX_NOHOST
    assert "bbflow: what was folded can't be published: there is no contact file" in done.stderr


@pytest.mark.parametrize(("course", "refused"), [(Course(), ["a part was refused"]), (FAILED, [])])
def test_a_copy_too_says_why_results_are_not_whole(tmp_path, course, refused):
    content = {"stream": "s", "output": str(tmp_path / "out"), "operators": {"v": ["mean"]}, "windows": ["run"]}
    config = parse_config(content | {"copy_to": f"file://{tmp_path}/copy"})
    config.output.mkdir()
    claim(config.output)
    GrowingZarr(config.output / "results.zarr").commit(bbflow_status="complete")
    assert Copying(config.output, config.copy_to).finish() == []
    _tell_ending(tmp_path / "a.yml", config, course, [], refused, draws_report=False)
    for place in ("out", "copy"):
        told = shown_attributes(tmp_path / place / "results.zarr")
        assert (told["bbflow_status"], told["bbflow_failure"]) == ("incomplete", course.failure or refused[0])


@pytest.mark.parametrize("course", [Course(), FAILED])
def test_results_that_can_not_be_read_any_more_are_told_and_the_end_goes_on(tmp_path, capsys, course):
    content = {"stream": "s", "output": str(tmp_path / "out"), "operators": {"v": ["mean"]}, "windows": ["run"]}
    unreadable = tmp_path / "out" / "results.zarr" / "zarr.json"
    unreadable.mkdir(parents=True)
    assert not is_complete(tmp_path / "out")
    file, config = tmp_path / "a.yml", parse_config(content)
    assert not _tell_ending(file, config, course, [], [], draws_report=True)
    why = f": {course.failure}" if course.failure else ""
    assert capsys.readouterr().out.splitlines() == [
        f"bbflow: {unreadable}: Is a directory",
        f"bbflow: WHAT IS IN {tmp_path / 'out'} CAN'T BE READ{why}",
    ]
