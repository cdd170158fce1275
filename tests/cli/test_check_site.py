"""A site's first day: what the model of a stream needs is measured, and what a scenario has otherwise is said."""

import os
from pathlib import Path

import pytest
from bbflow_catalogs import __file__ as catalogs

from bbflow.cli import main
from bbflow.errors import ConfigError
from bbflow.run.checks.finding import FINE, NOTE
from bbflow.run.checks.site import Effort, Measured, check_site, compared

SCENARIOS = Path(catalogs).parent / "scenarios"
QUICK = Effort(memory_bytes=4 << 20, stored_bytes=4 << 20, longest_s=5)


def test_each_input_of_the_model_is_measured_and_compared(tmp_path):
    found = list(check_site(SCENARIOS / "exascale.yml", tmp_path, tmp_path, QUICK))
    landing, fold, link = (f"burst_buffer.{name}_bytes_per_s" for name in ("landing", "fold", "link"))
    assert [item.what for item in found] == [landing, fold, link, "file_system"]
    assert all("/s here, " in item.text and "in the scenario" in item.text for item in found)


@pytest.mark.parametrize(("told", "said"), [(["100000\n", "-1\n"], "as it says itself: 11.6"), ([""], "over loopback")])
def test_a_link_has_the_speed_that_its_interface_tells_or_that_of_loopback(tmp_path, told, said):
    for number, text in enumerate(told):
        (tmp_path / f"eth{number}").mkdir()
        (tmp_path / f"eth{number}" / "speed").write_text(text)
    found = check_site(SCENARIOS / "exascale.yml", tmp_path, tmp_path, QUICK, interfaces=tmp_path)
    [link] = [item.text for item in found if "link" in item.what]
    assert said in link


def test_what_is_of_a_run_is_refused_beside_a_site(capsys):
    for more in (["--like", "run.bp"], ["--xml", "model.xml"], ["--times", "3"], ["--", "./model"]):
        assert main(["check", "--site", "exascale", *more]) == os.EX_USAGE
        assert "not at a run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("rate", "kind", "said"),
    [(10e9, FINE, ""), (12e9, FINE, ""), (2e9, NOTE, "0.2 times"), (30e9, NOTE, "3 times"), (float("nan"), NOTE, "no")],
)
def test_what_differs_is_said_with_the_key_that_sets_it(rate, kind, said):
    found = compared(Measured("burst_buffer.landing_bytes_per_s", "copying", rate, "no room"), 10e9)
    assert found.kind == kind
    assert said in found.text
    assert ("--set burst_buffer.landing_bytes_per_s=" in found.text) == ("times" in said)


def test_one_host_needn_t_fill_the_file_system_of_all():
    assert compared(Measured("file_system", "writing", 1e9), 4e12).kind == FINE
    assert compared(Measured("file_system", "writing", 6e12), 4e12).kind == NOTE


def test_a_scenario_of_another_kind_and_a_directory_that_is_not_there_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="kind 'transit'"):
        list(check_site(SCENARIOS / "cloudbb.yml", tmp_path, tmp_path))
    with pytest.raises(ConfigError, match="isn't a directory"):
        list(check_site(SCENARIOS / "exascale.yml", tmp_path, tmp_path / "none"))
