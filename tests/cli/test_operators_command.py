import os

import pytest

from bbflow.cli import main


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")


def test_all_that_the_configuration_may_name_is_listed(capsys):
    assert main(["operators"]) == 0
    told = capsys.readouterr().out
    lines = [line.split() for line in told.splitlines()]
    assert ["statistics"] in lines
    assert any(line[:1] == ["percentiles"] and "{q:" in line for line in lines)
    assert any(line[:1] == ["season"] and line[-1] == "JJAS" for line in lines)
    assert any(line[:1] == ["mon…"] and line[-1] == "monmean" for line in lines)


def test_one_name_is_told_with_what_it_means(capsys):
    assert main(["operators", "ymonmean"]) == 0
    told = capsys.readouterr().out
    assert "names of CDO" in told
    assert "{windows: [clim_month], operators: [mean]}" in told


def test_an_unknown_name_is_an_error_that_proposes_the_nearest(capsys):
    assert main(["operators", "timmaen"]) == os.EX_USAGE
    assert "did you mean 'timmean'" in capsys.readouterr().err


def test_what_to_write_for_each_of_cdos_operators_is_printed(capsys):
    assert main(["operators", "--cdo"]) == 0
    said = capsys.readouterr().out
    assert "- `dayadd`, `daysub`, `daymul`, `daydiv`: of: tas - x" in said
    assert "- `smooth`, `smooth9`: a point has no neighbours" in said
