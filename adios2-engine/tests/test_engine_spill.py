from pathlib import Path

import numpy as np
import pytest

from bbflow.net.frames import FrameReader, pack
from bbflow.phases import Board
from bbflow.store.entries import parse_record
from bbflow.stream.layouts import Layouts
from bbflow.stream.records import Step
from testsupport.asking import ask_once
from testsupport.processes import finish
from testsupport.writers import run_writer, steps_of, wait_for_file, watch, write_config, writing

WRITE = """
part, small = field(32768), io.define_variable("small", np.empty(0), [5], [0], [5], True)
engine = io.open("out", Mode.Write)
for step in range(STEPS):
    engine.begin_step()
    engine.put(part, np.full(32768, float(step)), Mode.Sync)
    engine.put(small, np.full(5, -float(step)))
    engine.end_step()
engine.close()
"""


def spilling(folder, **parameters):
    (folder / "pfs").mkdir()
    return write_config(folder, QueueFullPolicy="Spill", SpillDirectory=str(folder / "pfs"), **parameters)


@pytest.mark.parametrize("transport", ["shm", "tcp"])
def test_steps_without_room_land_in_the_spill_directory_and_stay_part_of_the_stream(small_node, tmp_path, transport):
    config = spilling(tmp_path, Transport=transport)
    with writing(small_node.contact, f"STEPS = 7\n{WRITE}", config) as process:
        returncode, said = finish(process)
    assert returncode == 0, said
    shown = watch(small_node)
    steps = steps_of(shown)
    assert (shown["status"], shown["discarded"]) == ("closed", [])
    assert [step.number for step in steps] == list(range(7))
    spilled = [step.number for step in steps if any(block.file for block in step.blocks)]
    assert spilled == [3, 4, 5, 6]
    assert "rank 0: steps 4 spilled to the SpillDirectory" in said
    assert sorted(path.name for path in (tmp_path / "pfs").iterdir()) == [f"model.{step}.0.spill" for step in spilled]
    for step in steps:
        for block, value in zip(step.blocks, (step.number, -step.number), strict=True):
            values = np.fromfile(block.file, "f8", block.bytes // 8, offset=block.offset) if block.file else None
            assert values is None or (values == value).all()
            assert (block.min, block.max) == (value, value)


def test_a_rank_announces_that_it_writes_to_the_pfs_while_it_spills(small_node, tmp_path, monkeypatch):
    board = tmp_path / "board"
    board.mkdir()
    monkeypatch.setenv("BBFLOW_PHASES", str(board))
    with writing(small_node.contact, f"STEPS = 7\n{WRITE}", spilling(tmp_path)) as process:
        returncode, said = finish(process)
    assert returncode == 0, said
    past = Board(board).past()
    assert len(past) == 4
    assert Board(board).read() == []


def test_files_of_another_run_of_the_name_stay_as_they_are(small_node, tmp_path):
    config = spilling(tmp_path)
    theirs = tmp_path / "pfs" / "model.4.0.spill"
    theirs.write_text("theirs")
    returncode, said = run_writer(small_node.contact, f"STEPS = 6\n{WRITE}", config)
    assert returncode == 0, said
    step = steps_of(watch(small_node))[4]
    assert {Path(block.file).name for block in step.blocks} == {"model.4.0-1.spill"}
    assert (np.fromfile(step.blocks[0].file, "f8", 32768, offset=step.blocks[0].offset) == 4).all()
    (address,) = small_node.nodes
    ask_once(address, "drop", stream="model")
    assert [path.name for path in (tmp_path / "pfs").iterdir()] == ["model.4.0.spill"]
    assert theirs.read_text() == "theirs"


def test_a_step_larger_than_the_pool_is_spilled(small_node, tmp_path):
    code = f"STEPS = 1\n{WRITE}".replace("32768", str(1 << 18))
    with writing(small_node.contact, code, spilling(tmp_path)) as process:
        returncode, said = finish(process)
    assert returncode == 0, said
    (step,) = steps_of(watch(small_node))
    large, small = step.blocks
    assert (np.fromfile(large.file, "f8", 1 << 18, offset=large.offset) == 0).all()
    assert large.offset % 64 == 0
    assert small.bytes == 40


def test_a_spilled_step_that_is_never_ended_leaves_no_file(small_node, tmp_path):
    code = f"STEPS = 6\n{WRITE}".replace(
        "    engine.end_step()", "    if step == 5:\n        break\n    engine.end_step()"
    )
    code = code.replace("engine.close()", 'tell("in-step")\ndel engine')
    with writing(small_node.contact, code, spilling(tmp_path)) as process:
        wait_for_file(tmp_path / "in-step")
        finish(process)
    assert not (tmp_path / "pfs" / "model.5.0.spill").exists()
    assert (tmp_path / "pfs" / "model.4.0.spill").exists()


def test_spilling_needs_a_directory(small_node, tmp_path):
    returncode, said = run_writer(small_node.contact, WRITE, write_config(tmp_path, QueueFullPolicy="Spill"))
    assert returncode != 0
    assert "QueueFullPolicy=Spill needs a SpillDirectory" in said


def test_a_spill_directory_that_is_not_there_is_refused_before_it_is_needed(small_node, tmp_path):
    config = write_config(tmp_path, QueueFullPolicy="Spill", SpillDirectory=str(tmp_path / "none"))
    returncode, said = run_writer(small_node.contact, f"STEPS = 0\n{WRITE}", config)
    assert returncode != 0
    assert f"there is no SpillDirectory {tmp_path / 'none'}: make it" in said


def test_discarded_steps_are_reported_at_close(small_node, tmp_path):
    config = write_config(tmp_path, QueueFullPolicy="Discard")
    returncode, said = run_writer(small_node.contact, f"STEPS = 7\n{WRITE}", config)
    assert returncode == 0
    assert "stream 'model', rank 0: steps 4 discarded for want of room" in said


ALONE = """
io.define_attribute("units", "K")
small = io.define_variable("small", np.empty(0), [5], [0], [5], True)
engine = io.open("out", Mode.Write)
for step in range(4):
    engine.begin_step()
    step == 1 and (tell("begun"), wait_for("after-begun"))
    engine.put(part, np.full(PART, float(step)), Mode.Sync)
    step == 1 and (tell("put"), wait_for("after-put"))
    engine.put(small, np.full(5, -float(step)))
    engine.end_step()
engine.close()
"""


@pytest.mark.parametrize(
    ("moment", "part", "kept"), [("begun", 32768, [1, 2, 3]), ("put", 32768, [1, 2, 3]), ("put", 1 << 20, [2, 3])]
)
def test_a_rank_without_any_node_left_spills_and_keeps_an_index(faulty_nodes, tmp_path, moment, part, kept):
    nodes = faulty_nodes(1, 32 << 20)
    (tmp_path / "pfs").mkdir()
    config = write_config(
        tmp_path, Transport="tcp", SpillDirectory=str(tmp_path / "pfs"), Stream="a/b", NodeLossTimeoutSecs="0.3"
    )
    with writing(nodes.contact, f"PART = {part}\npart = field(PART)\n{ALONE}", config) as process:
        for name in ("begun", "put"):
            wait_for_file(tmp_path / name)
            name == moment and nodes.kill("bb0")
            (tmp_path / f"after-{name}").touch()
        returncode, said = finish(process)
    assert returncode == 0, said
    assert f"rank 0: steps {len(kept)} spilled" in said
    assert "1 time(s) its BB node was lost" in said
    first, *middle, last = FrameReader().feed((tmp_path / "pfs" / "a%2Fb.0.index").read_bytes())
    assert (first["record"], first["moved_from"], first["settled"], first["writers"]) == ("open", "bb0", 0, 1)
    assert {(record["stream"], record["rank"]) for record in (first, *middle, last)} == {("a/b", 0)}
    assert last["record"] == "close"
    discarded = [record["step"] for record in middle if record["record"] == "discard"]
    assert discarded == ([1] if kept[0] == 2 else [])
    commits = [record for record in middle if record["record"] == "commit" and record["step"] not in discarded]
    assert [commit["step"] for commit in commits] == kept
    layouts = Layouts()
    for commit in commits:
        told = parse_record(pack(commit))
        block, small = Step.of(told.step, layouts.take_of(told), told).blocks
        assert (np.fromfile(block.file, "f8", part, offset=block.offset) == commit["step"]).all()
        assert (np.fromfile(small.file, "f8", 5, offset=small.offset) == -commit["step"]).all()
        assert (block.rank, block.bytes, block.max) == (0, part * 8, commit["step"])
        assert commit["committed_s"] >= commit["began_s"] > 1.7e9
    assert [item["name"] for commit in commits for item in commit["attributes"]] == ["units"]
    nodes.start("bb0", "--adopt", str(tmp_path / "pfs"))
    shown = ask_once(nodes.nodes[0], "watch", stream="a/b", after=-1, change=-1, limit=9, extremes=True)
    assert (shown["status"], shown["discarded"]) == ("closed", discarded)
    assert [step.number for step in steps_of(shown)] == [0, *kept]
