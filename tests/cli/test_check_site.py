"""A site's first day: what the model of a stream needs is measured, and what a scenario has otherwise is said."""

import pytest
from bbflow_catalogs import __file__ as catalogs

from bbflow.errors import ConfigError
from bbflow.run.checks import site
from bbflow.run.checks.finding import FINE, NOTE
from bbflow.run.checks.site import Measured, check_site

SCENARIOS = site.Path(catalogs).parent / "scenarios"


@pytest.fixture
def quick(monkeypatch):
    """Little is copied, sent and written."""
    for name in ("MEMORY_BYTES", "STORED_BYTES"):
        monkeypatch.setattr(site, name, 4 << 20)
    monkeypatch.setattr(site, "LONGEST_S", 5.0)


def test_each_input_of_the_model_is_measured_and_compared(quick, tmp_path):
    found = list(check_site(SCENARIOS / "exascale.yml", tmp_path, tmp_path))
    keys = {item.what for item in found}
    landing, fold, link = (f"burst_buffer.{name}_bytes_per_s" for name in ("landing", "fold", "link"))
    assert keys == {landing, fold, link, "file_system"}
    assert all("/s here, " in item.text and "in the scenario" in item.text for item in found)


@pytest.mark.parametrize(
    ("rate", "kind", "said"),
    [(10e9, FINE, ""), (12e9, FINE, ""), (2e9, NOTE, "0.2 times"), (30e9, NOTE, "3 times"), (float("nan"), NOTE, "no")],
)
def test_what_differs_is_said_with_the_key_that_sets_it(rate, kind, said):
    found = site._compared(Measured("burst_buffer.landing_bytes_per_s", "copying", rate, "no room"), 10e9)
    assert found.kind == kind
    assert said in found.text
    assert ("--set burst_buffer.landing_bytes_per_s=" in found.text) == ("times" in said)


def test_one_host_needn_t_fill_the_file_system_of_all():
    assert site._compared(Measured("file_system", "writing", 1e9), 4e12).kind == FINE
    assert site._compared(Measured("file_system", "writing", 6e12), 4e12).kind == NOTE


def test_a_scenario_of_another_kind_and_a_directory_that_is_not_there_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="kind 'transit'"):
        list(check_site(SCENARIOS / "cloudbb.yml", tmp_path, tmp_path))
    with pytest.raises(ConfigError, match="isn't a directory"):
        list(check_site(SCENARIOS / "exascale.yml", tmp_path, tmp_path / "none"))
