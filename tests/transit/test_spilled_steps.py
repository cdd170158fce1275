"""Steps count only as they were spilled; what somebody does to their files is a loss of these steps, and said."""

import os
import shutil

import numpy as np
import pytest

from bbflow import start_nodes
from bbflow.configuring.step_time import read_time
from bbflow.drain.rescuing import Rescue
from bbflow.errors import SpillError
from bbflow.store.block_values import read_block
from bbflow.transit.output.decoding import open_results
from testsupport.waiting import PATIENCE_S
from testsupport.writers import steps_of, watch, write, write_config

STEPS = 12
WRITE = f"""
when, part = io.define_variable("time", np.zeros(1)), field(2048)
io.define_attribute("time/units", "days since 2001-01-01")
small = io.define_variable("small", np.empty(0), [5], [0], [5], True)
engine = io.open("model", Mode.Write)
for step in range({STEPS}):
    engine.begin_step()
    engine.put(when, np.array([step / 4]), Mode.Sync)
    engine.put(part, np.full(2048, float(step)), Mode.Sync)
    engine.put(small, np.full(5, -float(step)), Mode.Sync)
    engine.end_step()
engine.close()
"""


@pytest.fixture
def spilled(tmp_path):
    """A node with a stream that has ended, most of it spilled; gives it too which steps that are."""
    (tmp_path / "pfs").mkdir()
    with start_nodes(1, "64KiB") as nodes:
        config = write_config(tmp_path, QueueFullPolicy="Spill", SpillDirectory=str(tmp_path / "pfs"))
        write(nodes.contact, WRITE, config)
        nodes.spilled = [step.number for step in steps_of(watch(nodes)) if step.files]
        assert nodes.spilled[-5:] == [*range(STEPS - 5, STEPS)]
        yield nodes


def file_of(tmp_path, step):
    return tmp_path / "pfs" / f"model.{step}.0.spill"


def remove(path):
    path.unlink()


def cut(path):
    os.truncate(path, path.stat().st_size - 8)


def empty(path):
    os.truncate(path, 0)


def leave_too_little(path):
    os.truncate(path, 13)


def flip(path):
    with path.open("r+b") as file:
        file.seek(9000)
        file.write(b"?")


def flip_table(path):
    with path.open("r+b") as file:
        file.seek(-20, os.SEEK_END)
        file.write(b"?")


def replace(path):
    shutil.copy(path.with_name(f"model.{STEPS - 1}.0.spill"), path)


HARMS = [remove, cut, empty, leave_too_little, flip, flip_table, replace]


def configured(tmp_path):
    operators = {"field": ["mean"], "small": ["mean"]}
    nodes = {"stream": "model", "output": str(tmp_path / "out"), "workers": {"processes": 0, "threads": 1}}
    return nodes | {"operators": operators, "windows": ["run"], "raw": {"variables": ["field"]}}


def look(tmp_path, outcome, lost):
    left = [step for step in range(STEPS) if step not in lost]
    assert not outcome.complete
    assert any("all points lack step" in line for line in outcome.errors)
    with open_results(tmp_path / "out" / "results.zarr") as results:
        assert results.bbflow_status == "incomplete"
        assert (results.field_run_mean.values == np.mean(left)).all()
        assert (results.small_run_mean.values == -np.mean(left)).all()
        assert results.steps_run.values.tolist() == [len(left)]
    with open_results(tmp_path / "out" / "raw.zarr") as raw:
        assert (raw.field.values == np.array(left)[:, None]).all()


@pytest.mark.parametrize("harm", HARMS)
def test_a_step_whose_spilled_file_was_harmed_is_lost_and_the_others_count(spilled, tmp_path, harm, capfd):
    lost = [STEPS - 5, STEPS - 3]
    for step in lost:
        harm(file_of(tmp_path, step))
    with spilled.analyse(configured(tmp_path)) as analysis:
        look(tmp_path, analysis.wait(300), lost)
    said = capfd.readouterr().err
    assert all(f"step {step}, which BB node bb0 has, is lost: {file_of(tmp_path, step)}" in said for step in lost)


def test_a_file_that_is_harmed_while_an_analysis_runs_ends_it_and_the_next_one_continues_without_the_step(
    spilled, tmp_path, monkeypatch
):
    with monkeypatch.context() as patch:
        patch.setattr("bbflow.transit.driver.intake.readable", lambda node, news, before_s: (news, []))
        flip(file_of(tmp_path, STEPS - 2))
        refused = pytest.raises(SpillError, match=rf"model\.{STEPS - 2}\.0\.spill isn't as a rank has spilled it")
        with refused, spilled.analyse(configured(tmp_path)) as analysis:
            analysis.wait(300)
    with spilled.analyse(configured(tmp_path)) as analysis:
        look(tmp_path, analysis.wait(300), [STEPS - 2])


def test_an_analysis_of_a_stream_that_has_lost_all_its_steps_ends(tmp_path):
    (tmp_path / "pfs").mkdir()
    with start_nodes(1, "64KiB") as nodes:
        full = write_config(tmp_path, Stream="other")
        write(nodes.contact, WRITE.replace(f"range({STEPS})", "range(3)"), full)
        write(
            nodes.contact, WRITE, write_config(tmp_path, QueueFullPolicy="Spill", SpillDirectory=str(tmp_path / "pfs"))
        )
        for step in range(STEPS):
            file_of(tmp_path, step).unlink()
        with nodes.analyse(configured(tmp_path)) as analysis:
            outcome = analysis.wait(PATIENCE_S)
    assert (outcome.complete, outcome.steps) == (False, 0)


def test_a_directory_of_spilled_files_that_is_not_there_may_come_back(spilled, tmp_path):
    (tmp_path / "pfs").rename(tmp_path / "away")
    with pytest.raises(FileNotFoundError), spilled.analyse(configured(tmp_path)) as analysis:
        analysis.wait(300)
    (tmp_path / "away").rename(tmp_path / "pfs")
    with spilled.analyse(configured(tmp_path)) as analysis:
        assert analysis.wait(300).complete


def test_a_rescue_continues_without_a_lost_step_and_says_which(spilled, tmp_path):
    flip(file_of(tmp_path, STEPS - 4))
    rescued = Rescue(spilled.contact, "model", tmp_path / "rescued", read_time("time")).run()
    assert (rescued.steps, rescued.complete) == (STEPS - 1, False)
    assert [line.partition(",")[0] for line in rescued.refused] == [f"step {STEPS - 4}"]


@pytest.mark.parametrize("harm", HARMS)
def test_a_reader_of_a_harmed_file_is_refused(spilled, tmp_path, harm):
    step = next(step for step in steps_of(watch(spilled)) if step.number == STEPS - 2)
    block = next(block for block in step.blocks if block.name == "field")
    assert (read_block("", block) == STEPS - 2).all()
    harm(file_of(tmp_path, STEPS - 2))
    with pytest.raises(FileNotFoundError if harm is remove else SpillError):
        read_block("", block)
