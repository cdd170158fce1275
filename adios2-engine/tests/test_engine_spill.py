import numpy as np
import pytest
from writers import finish, run_writer, steps_of, wait_for_file, watch, write_config, writing

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


def test_a_spill_directory_that_is_not_there_is_named(small_node, tmp_path):
    config = write_config(tmp_path, QueueFullPolicy="Spill", SpillDirectory=str(tmp_path / "none"))
    returncode, said = run_writer(small_node.contact, f"STEPS = 7\n{WRITE}", config)
    assert returncode != 0
    assert "none/model.3.0.spill" in said


def test_discarded_steps_are_reported_at_close(small_node, tmp_path):
    config = write_config(tmp_path, QueueFullPolicy="Discard")
    returncode, said = run_writer(small_node.contact, f"STEPS = 7\n{WRITE}", config)
    assert returncode == 0
    assert "stream 'model', rank 0: steps 4 discarded for want of room" in said
