from contextlib import contextmanager

import pytest

from bbflow.landing.client import NodeClient
from testsupport.asking import ask
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

STEP_BYTES = 8 * 32768  # four steps fill a small node

WRITE_STEPS = """
part = field(32768)
engine = io.open("out", Mode.Write)
for step in range(STEPS):
    assert engine.begin_step() == StepStatus.OK
    assert engine.current_step() == step
    engine.put(part, np.full(32768, float(step)), Mode.Sync)
    engine.end_step()
engine.close()
"""

WRITE_IMPATIENTLY = """
part = field(32768)
engine = io.open("out", Mode.Write)
for step in range(4):
    engine.begin_step()
    engine.put(part, np.full(32768, float(step)), Mode.Sync)
    engine.end_step()
answers = [engine.begin_step(StepMode.Append, 0.1) for _ in range(3)]
assert answers == [StepStatus.NotReady] * 3, answers
assert engine.begin_step(StepMode.Append, 0.0) == StepStatus.NotReady
tell("not-ready")
assert engine.begin_step(StepMode.Append, -1.0) == StepStatus.OK
engine.put(part, np.full(32768, 4.0), Mode.Sync)
engine.end_step()
engine.close()
"""


MANY_PUTS = """
part = field(32768)
engine = io.open("out", Mode.Write)
engine.begin_step()
for _ in range(PUTS):
    engine.put(part, np.ones(32768), Mode.Sync)
engine.end_step()
engine.close()
"""


SMALL_FIELDS = """
lengths = enumerate([100] * 40 + [1 << 19] * LARGE)
parts = [io.define_variable(f"v{number}", np.empty(0), [n], [0], [n], True) for number, n in lengths]
engine = io.open("out", Mode.Write)
for step in range(STEPS):
    engine.begin_step()
    for number, part in enumerate(parts):
        engine.put(part, np.full(part.count(), 100.0 * step + number), Mode.Sync)
    engine.end_step()
engine.close()
"""


@contextmanager
def consumer(nodes):
    """A consumer of the stream: a function that is done with a step."""
    with NodeClient(nodes.nodes[0]) as client:
        attached = ask(client, "attach", stream="model", consumers=["fold"])
        keys = {"stream": "model", "consumer": "fold", "epoch": attached["epoch"], "checkpoint": b""}
        yield lambda step: ask(client, "done", step=step, **keys)


def offsets(shown):
    return {step.number: step.blocks[0].offset for step in steps_of(shown)}


def test_block_waits_until_a_consumer_is_done(small_node, tmp_path):
    code = f"STEPS = 12\n{WRITE_STEPS}"
    with consumer(small_node) as done, writing(small_node.contact, code, write_config(tmp_path)) as process:
        placed = offsets(watch_until(small_node, lambda shown: shown["last"] == 3))
        until(lambda: node_status(small_node)["streams"]["model"]["waiting"] == 1)
        assert watch(small_node)["last"] == 3
        assert node_status(small_node)["free"] == 0
        for step in range(8):
            done(step)
            shown = watch_until(small_node, lambda shown, step=step: shown["last"] == step + 4)
            assert len(shown["steps"]) == 4
            newest = steps_of(shown)[-1]
            assert (arrays_of(small_node, newest)[0][1] == newest.number).all()
            placed |= offsets(shown)
        returncode, said = finish(process)
    assert returncode == 0, said
    assert [placed[step] for step in range(4, 12)] == [placed[step % 4] for step in range(4, 12)]
    assert node_status(small_node)["streams"]["model"]["waited_s"] > 0


def test_discard_drops_whole_steps_and_counts_them(small_node, tmp_path):
    write(small_node.contact, f"STEPS = 7\n{WRITE_STEPS}", write_config(tmp_path, QueueFullPolicy="Discard"))
    shown = watch(small_node)
    assert (shown["status"], shown["discarded"], shown["last"]) == ("closed", [4, 5, 6], 6)
    assert [step.number for step in steps_of(shown)] == [0, 1, 2, 3]
    assert node_status(small_node)["streams"]["model"]["discarded"] == 3


@pytest.mark.parametrize(
    ("put", "policy"),
    [
        ("engine.put(large, np.ones(1 << 18), Mode.Sync)", "Block"),
        ("engine.put(large, np.ones(1 << 18))", "Discard"),
    ],
)
def test_a_step_above_the_capacity_is_an_error(small_node, tmp_path, put, policy):
    code = f"""
large = field(1 << 18)
engine = io.open("out", Mode.Write)
engine.begin_step()
{put}
engine.end_step()
engine.close()
"""
    returncode, said = run_writer(small_node.contact, code, write_config(tmp_path, QueueFullPolicy=policy))
    assert returncode != 0
    assert "step 0 needs" in said
    assert "capacity" in said
    assert watch_until(small_node, lambda shown: shown["status"] == "aborted")["steps"] == []
    status = node_status(small_node)
    assert status["free"] == status["capacity"]


def test_a_step_of_many_puts_may_fill_the_pool(small_node, tmp_path):
    write(small_node.contact, f"PUTS = 4\n{MANY_PUTS}", write_config(tmp_path))
    shown = watch(small_node)
    assert steps_of(shown)[0].bytes == node_status(small_node)["capacity"]


def test_a_step_of_many_puts_above_the_capacity_is_an_error(small_node, tmp_path):
    returncode, said = run_writer(small_node.contact, f"PUTS = 5\n{MANY_PUTS}", write_config(tmp_path))
    assert returncode != 0
    assert "capacity" in said
    watch_until(small_node, lambda shown: shown["status"] == "aborted")
    status = node_status(small_node)
    assert status["free"] == status["capacity"]


def test_begin_step_gives_not_ready_when_its_time_is_up(small_node, tmp_path):
    config = write_config(tmp_path)
    with consumer(small_node) as done, writing(small_node.contact, WRITE_IMPATIENTLY, config) as process:
        wait_for_file(tmp_path / "not-ready")
        done(0)
        returncode, said = finish(process)
    assert returncode == 0, said
    assert watch(small_node)["last"] == 4


def test_a_step_smaller_than_the_last_gives_its_space_back(small_node, tmp_path):
    code = """
whole, little = field(32768), io.define_variable("little", np.empty(0), [8], [0], [8], True)
engine = io.open("out", Mode.Write)
for variable, n in ((whole, 32768), (little, 8), (whole, 32768)):
    engine.begin_step()
    engine.put(variable, np.ones(n), Mode.Sync)
    engine.end_step()
engine.close()
"""
    write(small_node.contact, code, write_config(tmp_path))
    status = node_status(small_node)
    assert status["capacity"] - status["free"] == 2 * STEP_BYTES + 4096


RANKS_WRITE_STEPS = """
import os
rank, writers = int(os.environ["PMI_RANK"]), int(os.environ["PMI_SIZE"])
n = 32768 // 2
part = field(n, n * writers, n * rank)
engine = io.open("out", Mode.Write)
for step in range(STEPS):
    engine.begin_step()
    if (step + rank) % 2:
        time.sleep(0.01)
    engine.put(part, np.full(n, 100.0 * step + rank), Mode.Sync)
    engine.end_step()
engine.close()
"""


def test_ranks_of_different_pace_get_through_a_pool_of_two_steps(small_node, tmp_path):
    code, config = f"STEPS = 10\n{RANKS_WRITE_STEPS}", write_config(tmp_path)
    with consumer(small_node) as done, writing(small_node.contact, code, config, ranks=3) as job:
        for number in range(10):
            shown = watch_until(small_node, lambda shown, number=number: shown["last"] >= number)
            step = next(step for step in steps_of(shown) if step.number == number)
            values = [set(array.tolist()) for _, array in arrays_of(small_node, step)]
            assert values == [{100.0 * number + rank} for rank in range(3)]
            done(number)
        returncode, said = finish(job)
    assert returncode == 0, said
    status = node_status(small_node)
    assert status["free"] == status["capacity"]


def test_ranks_discard_the_same_steps(small_node, tmp_path):
    code = f"STEPS = 6\n{RANKS_WRITE_STEPS}"
    config = write_config(tmp_path, QueueFullPolicy="Discard")
    with writing(small_node.contact, code, config, ranks=2) as job:
        returncode, said = finish(job)
    assert returncode == 0, said
    shown = watch(small_node)
    landed = steps_of(shown)
    assert [len(step.blocks) for step in landed] == [2] * len(landed)
    assert shown["discarded"]
    assert sorted([step.number for step in landed] + shown["discarded"]) == list(range(6))


def test_a_discarded_step_is_followed_by_one_that_lands(small_node, tmp_path):
    code = WRITE_STEPS.replace("    assert engine.begin", '    step == 6 and wait_for("go")\n    assert engine.begin')
    config = write_config(tmp_path, QueueFullPolicy="Discard")
    with consumer(small_node) as done, writing(small_node.contact, f"STEPS = 8\n{code}", config) as process:
        watch_until(small_node, lambda shown: shown["last"] == 5)
        done(1)
        (tmp_path / "go").touch()
        returncode, said = finish(process)
    assert returncode == 0, said
    shown = watch(small_node)
    assert (shown["discarded"], [step.number for step in steps_of(shown)]) == ([4, 5], [2, 3, 6, 7])


@pytest.mark.parametrize(("large", "steps", "rooms"), [(0, 2, 1), (9, 1, 2)], ids=["few", "more than are kept"])
def test_small_blocks_of_a_first_step_get_their_room_together(big_node, tmp_path, large, steps, rooms):
    write(big_node.contact, f"LARGE, STEPS = {large}, {steps}\n{SMALL_FIELDS}", write_config(tmp_path))
    shown = steps_of(watch(big_node))
    assert [len(step.layout.reach) for step in shown] == [rooms] * steps
    assert len({step.layout for step in shown}) == 1
    for step in shown:
        values = [set(own.tolist()) for _, own in arrays_of(big_node, step)]
        assert values == [{100.0 * step.number + at} for at in range(40 + large)]
