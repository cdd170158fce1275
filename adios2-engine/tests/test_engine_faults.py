import signal

import pytest

from testsupport.processes import finish
from testsupport.waiting import until
from testsupport.writers import (
    arrays_of,
    node_status,
    run_writer,
    steps_of,
    wait_for_file,
    watch,
    watch_until,
    write,
    write_config,
    writing,
)

STEP_BYTES = 8 * 32768

DIE_IN_STEP_2 = """
part = field(32768)
engine = io.open("out", Mode.Write)
for step in range(3):
    engine.begin_step()
    engine.put(part, np.full(32768, float(step)), Mode.Sync)
    if step == 2:
        tell("in-step-2")
        wait_for("never")
    engine.end_step()
"""

ONE_STEP = """
part = field(32768)
engine = io.open("out", Mode.Write)
tell("open")
wait_for("go")
engine.begin_step()
engine.put(part, np.ones(32768), Mode.Sync)
engine.end_step()
engine.close()
"""


def test_a_killed_writer_leaves_its_committed_steps_and_no_lost_space(node, tmp_path):
    with writing(node.contact, DIE_IN_STEP_2, write_config(tmp_path)) as process:
        wait_for_file(tmp_path / "in-step-2")
        process.send_signal(signal.SIGKILL)
        process.wait()
    shown = watch_until(node, lambda shown: shown["status"] == "aborted")
    steps = steps_of(shown)
    assert [step.number for step in steps] == [0, 1]
    assert [arrays_of(node, step)[0][1].tolist() for step in steps] == [[0.0] * 32768, [1.0] * 32768]
    status = node_status(node)
    assert status["capacity"] - status["free"] == 2 * STEP_BYTES


def test_another_stream_lands_after_a_writer_died(node, tmp_path):
    with writing(node.contact, DIE_IN_STEP_2, write_config(tmp_path)) as process:
        wait_for_file(tmp_path / "in-step-2")
        process.send_signal(signal.SIGKILL)
        process.wait()
    (tmp_path / "go").touch()
    write(node.contact, ONE_STEP, write_config(tmp_path, stream="second"))
    assert watch_until(node, lambda shown: shown["status"] == "closed", "second")["last"] == 0


def test_a_writer_whose_node_is_gone_says_so(node, tmp_path):
    with writing(node.contact, ONE_STEP, write_config(tmp_path, NodeLossTimeoutSecs="0.3")) as process:
        wait_for_file(tmp_path / "open")
        node.close()
        (tmp_path / "go").touch()
        returncode, said = finish(process)
    assert returncode != 0
    assert "the BB node's agent is gone" in said
    assert "NodeLossTimeoutSecs=0.3" in said


def test_a_damaged_contact_file_is_named(tmp_path):
    contact = tmp_path / "contact.json"
    contact.write_text('{"format": "bbflow-contact", "ver')
    returncode, said = run_writer(contact, ONE_STEP, write_config(tmp_path, OpenTimeoutSecs="0.2"))
    assert returncode != 0
    assert "bbflow: " in said
    assert "contact.json" in said


TWO_RANKS = """
import os
rank, writers = int(os.environ.get("PMI_RANK", rank)), 2
part = field(512, 1024, 512 * rank)
engine = io.open("out", Mode.Write)
engine.begin_step()
engine.put(part, np.ones(512), Mode.Sync)
engine.perform_puts()  # now it has room
tell(f"put.{rank}")
wait_for(f"go.{rank}")
engine.end_step()
tell(f"ended.{rank}")
wait_for("never")
"""


@pytest.mark.parametrize("dies", ["before its commit", "after its commit"])
def test_a_step_that_lost_a_rank_never_lands_and_its_space_comes_back(node, tmp_path, dies):
    configs = [write_config(tmp_path, Rank=str(rank), Writers="2") for rank in range(2)]
    with (
        writing(node.contact, TWO_RANKS, configs[0], rank=0, writers=2) as first,
        writing(node.contact, TWO_RANKS, configs[1], rank=1, writers=2) as second,
    ):
        wait_for_file(tmp_path / "put.0")
        wait_for_file(tmp_path / "put.1")
        if dies == "after its commit":
            (tmp_path / "go.0").touch()
            wait_for_file(tmp_path / "ended.0")
        first.kill()
        watch_until(node, lambda shown: shown["status"] == "aborted")
        (tmp_path / "go.1").touch()
        wait_for_file(tmp_path / "ended.1")
        second.kill()
        second.wait()
    until(lambda: (status := node_status(node))["free"] == status["capacity"], "its space didn't come back")
    assert watch(node)["steps"] == []
