from pathlib import Path

from bbflow.course import Course, KeepsRun
from bbflow.ending import Left, describe_ending, describe_held
from bbflow.landing.contact import NodeAddress, add_node, contact_key

FAILED = Course(keeping=KeepsRun.RESCUED, failure="the analysis was killed by SIGKILL")


def told(course, left):
    return describe_ending(Path("a.yml"), "climate", Path("out"), course, left)


def test_a_run_that_went_well_says_where_its_results_are():
    assert told(Course(), Left(3, 99, 0)) == ["results in out/results.zarr"]


def test_results_are_not_named_where_nothing_was_folded():
    assert told(Course(), Left(0, -1, 0)) == ["nothing was folded: there are no results"]


def test_what_a_failed_analysis_left_goes_on_from_its_last_step():
    lines = told(FAILED, Left(2, 23, 106))
    assert lines[0] == "results in out/results.zarr"
    assert lines[1].endswith("was killed by SIGKILL; they end with step 23")
    again = "bbflow run a.yml --continue out -- bbflow replay out/rescued/raw.zarr --stream climate --after 23"
    assert lines[-1].strip() == again


def test_what_was_rescued_without_results_needs_another_output():
    lines = told(FAILED, Left(0, -1, 106))
    assert "there are none" in lines[0]
    assert "another output" in lines[-2]
    assert "--continue" not in lines[-1]


def test_open_windows_that_could_not_be_published_are_said():
    assert "windows that were open" in told(FAILED, Left(2, -1, 0))[1]


def test_what_could_not_be_published_is_published_by_a_command_that_is_said(tmp_path):
    contact = tmp_path / "contact.json"
    add_node(
        contact, NodeAddress("bb0", "here", str(tmp_path / "none.sock"), str(tmp_path / "bb0"), contact_key(contact))
    )
    for published, count in ((True, 3), (False, 4)):
        lines = describe_held(Path("a.yml"), "climate", contact, Course(keeping=KeepsRun.HELD, published=published))
        assert len(lines) == count
        assert any("fold a.yml" in line and line.endswith("--finish") for line in lines) == (not published)
