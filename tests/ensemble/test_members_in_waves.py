"""An ensemble end to end: real programs, nodes and processes, and kills."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import pytest
from waves import Waves, fields

from bbflow import Ensemble, open_results
from bbflow.ensemble.roster import MemberRoster
from bbflow.ensemble.status import read_status
from bbflow.errors import NodeError
from testsupport.waiting import until


@pytest.mark.timeout(600)
def test_members_in_waves_with_kills_of_all_parts_equal_xarray_over_their_bp_files(tmp_path):
    waves = Waves(tmp_path, 20, kills=1)
    assert waves.run() == 3  # a member was lost
    waves.check()
    assert waves.killed == {"serve": 1, "node": 1}
    assert [len(waves.dying), len(waves.lost)] == [2, 1]


def command(*words):
    return subprocess.run(
        [sys.executable, "-m", "bbflow", *map(str, words)], capture_output=True, text=True, timeout=300
    )


@pytest.mark.timeout(600)
def test_a_member_runs_by_the_command_line_and_the_ensemble_ends_with_down(tmp_path):
    waves = Waves(tmp_path, 3, kills=0)
    program = tmp_path / "member.py"
    program.write_text("import sys\nfrom waves import write\nwrite(1, sys.argv[1])\n")
    assert command("ensemble", "up", waves.config).returncode == 0
    again = command("ensemble", "up", waves.config)
    assert again.returncode == 64
    assert "is up already" in again.stderr
    folder = str(__file__).rpartition("/")[0]
    words = ["env", f"PYTHONPATH={folder}", sys.executable, program, waves.xml]
    assert command("run", waves.config, "--member", "1", "--", *words).returncode == 0
    unknown = command("run", waves.config, "--member", "4", "--", "true")
    assert unknown.returncode == 64
    assert "its members are 1 to 3" in unknown.stderr
    assert command("ensemble", "spare", waves.config, "3", "--why", "the error is small").returncode == 0
    spared = command("run", waves.config, "--member", "3", "--", "false")
    assert (spared.returncode, "need not start: the error is small" in spared.stderr) == (0, True)
    assert "only one that hasn't begun" in command("ensemble", "spare", waves.config, "1").stderr
    hangs = [sys.executable, "-m", "bbflow", "run", waves.config, "--member", "2", "--", "sleep", "600"]
    with subprocess.Popen(hangs, stderr=subprocess.PIPE) as hanging:
        roster = MemberRoster(waves.analysis.output)
        until(lambda: roster.members(("2",))["2"].attempt)
        assert command("ensemble", "down", waves.config).returncode == 3
        assert hanging.wait(60) == 143
    status = read_status(waves.analysis.output)
    assert [member.standing for member in status.members] == ["done", "lost", "spared"]
    with open_results(waves.analysis.output / "ensemble.zarr") as found:
        assert found.members_step.values.tolist() == [1] * 8
    assert "1 done, 1 lost, 1 spared" in command("ensemble", "status", waves.config).stdout
    assert "isn't up" in command("ensemble", "down", waves.config).stderr


def keeper_of(config):
    """The process that keeps an ensemble's nodes."""
    processes, words = psutil.process_iter(["cmdline"]), f"ensemble keep {config}"
    return next(each.pid for each in processes if words in " ".join(each.info["cmdline"] or ()))


@pytest.mark.timeout(300)
def test_an_ensemble_whose_keeper_is_killed_is_not_waited_for_and_carries_on(tmp_path):
    waves = Waves(tmp_path, 2, kills=0)
    ensemble = Ensemble(waves.config)
    words = ["env", f"PYTHONPATH={Path(__file__).parent}", sys.executable, "-c"]
    words += ["import sys; from waves import write; write(int(sys.argv[1]), sys.argv[2])"]
    ensemble.up()
    assert ensemble.run("1", [*words, "1", str(waves.xml)]) == 0
    os.kill(keeper_of(waves.config), signal.SIGKILL)
    with pytest.raises(NodeError, match="isn't up any more"):
        ensemble.wait(100)
    ensemble.up()
    for member in ("1", "2"):  # of the first what wasn't folded went with the nodes
        assert ensemble.run(member, [*words, member, str(waves.xml)]) == 0
    assert ensemble.wait(100)
    with open_results(ensemble.output / "ensemble.zarr") as found:
        for step, mean in enumerate(found.tas_step_mean.values):
            np.testing.assert_allclose(mean, (fields(1, step)[0] + fields(2, step)[0]) / 2, rtol=1e-12)
        assert found.members_step.values.tolist() == [2] * 8


JOINED_FIRST = """
import sys
from pathlib import Path
from waves import write
from bbflow.ensemble.status import read_status
from testsupport.waiting import until
xml, output = map(Path, sys.argv[1:])
joined = lambda: read_status(output).members[0].times >= 4
write(1, xml, before_end=lambda: until(joined))
assert not (output / "members/1/results.zarr/tas_step_max/c.0.0.0").exists()
"""


@pytest.mark.timeout(300)
def test_a_member_whose_fields_are_joined_while_it_runs_is_complete(tmp_path):
    waves = Waves(tmp_path, 1, kills=0)
    ensemble = Ensemble(waves.config)
    ensemble.up()
    words = [
        "env",
        f"PYTHONPATH={Path(__file__).parent}:{Path(__file__).parents[2]}",
        sys.executable,
        "-c",
        JOINED_FIRST,
    ]
    assert ensemble.run("1", [*words, str(waves.xml), str(ensemble.output)]) == 0
    assert ensemble.wait(100)
    with open_results(ensemble.output / "ensemble.zarr") as found:
        assert found.members_step.values.tolist() == [1] * 8
