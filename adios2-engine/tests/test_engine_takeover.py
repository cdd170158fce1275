import pytest

from bbflow.store.block_values import read_block
from testsupport.asking import ask_once
from testsupport.fabrics import NEEDS_LIBFABRIC, PROVIDER
from testsupport.processes import finish
from testsupport.writers import steps_of, wait_for_file, watch_until, write_config, writing

# Stops where the test wants to do something to the node.
STEPS = """
part, fine = field(65536), io.define_variable("fine", np.empty(0), [8], [0], [8], True)
engine = io.open("out", Mode.Write)
def pause(name):
    tell(name)
    wait_for("after-" + name)
for step in range(4):
    engine.begin_step()
    step == 2 and pause("begun")
    engine.put(part, np.full(65536, float(step)), Mode.Sync)
    step == 2 and pause("put")
    engine.put(fine, np.full(8, 10.0 * step))
    engine.end_step()
    step == 2 and pause("ended")
engine.close()
"""
PAUSES = ("begun", "put", "ended")


def all_nodes(nodes, stream="model"):
    return [
        ask_once(node, "watch", stream=stream, after=-1, change=-1, limit=1000, extremes=True)
        for node in nodes.nodes
    ]  # fmt: skip


def values_of(node, step):
    """Each block's name and its only value."""
    found = [(block.name, set(read_block(node.pool, block).tolist())) for block in step.blocks]
    assert all(len(values) == 1 for _, values in found)
    return [(name, values.pop()) for name, values in found]


def run_through(process, folder, actions):
    """Lead the writer from pause to pause; do what is to be done at one of them."""
    for name in PAUSES:
        wait_for_file(folder / name)
        actions.get(name, lambda: None)()
        (folder / f"after-{name}").touch()
    returncode, said = finish(process)
    assert returncode == 0, said
    return said


@pytest.mark.parametrize("transport", ["shm", "tcp"])
@pytest.mark.parametrize("moment", PAUSES)
def test_a_writer_goes_on_with_an_agent_that_was_killed_and_started_again(faulty_nodes, tmp_path, transport, moment):
    nodes = faulty_nodes(1, 4 << 20)

    def kill_and_start():
        nodes.kill("bb0")
        nodes.start("bb0")

    with writing(nodes.contact, STEPS, write_config(tmp_path, Transport=transport)) as process:
        run_through(process, tmp_path, {moment: kill_and_start})
    (shown,) = all_nodes(nodes)
    assert (shown["status"], shown["discarded"]) == ("closed", [])
    steps = steps_of(shown)
    assert [step.number for step in steps] == [0, 1, 2, 3]
    expected = [[("field", step), ("fine", 10.0 * step)] for step in range(4)]
    assert [values_of(nodes.nodes[0], step) for step in steps] == expected


def test_a_writer_that_waits_for_room_goes_on_waiting_after_the_agent_s_restart(faulty_nodes, tmp_path):
    nodes = faulty_nodes(1, 1 << 20)
    code = """
part = field(65536)
engine = io.open("out", Mode.Write)
for step in range(3):
    step == 2 and tell("full")
    engine.begin_step()
    engine.put(part, np.full(65536, float(step)), Mode.Sync)
    engine.end_step()
engine.close()
"""
    with writing(nodes.contact, code, write_config(tmp_path)) as process:
        wait_for_file(tmp_path / "full")
        for _ in range(2):
            nodes.kill("bb0")
            nodes.start("bb0")
        epoch = ask_once(nodes.nodes[0], "attach", stream="model", consumers=["fold"])["epoch"]
        done = {"stream": "model", "consumer": "fold", "epoch": epoch, "step": 0, "checkpoint": b""}
        watch_until(nodes, lambda shown: shown["last"] == 1)
        ask_once(nodes.nodes[0], "done", **done)
        returncode, said = finish(process)
    assert returncode == 0, said
    assert [step.number for step in steps_of(all_nodes(nodes)[0])] == [1, 2]


@pytest.mark.parametrize(
    ("transport", "moment"),
    [
        ("shm", "begun"), ("shm", "put"), ("tcp", "begun"), ("tcp", "put"), ("shm", "ended"),
        pytest.param("fabric", "put", marks=NEEDS_LIBFABRIC),
    ],
)  # fmt: skip
def test_a_rank_whose_node_is_gone_moves_to_the_next(faulty_nodes, tmp_path, transport, moment):
    nodes = faulty_nodes(2, 4 << 20)
    provider = {"FabricProvider": PROVIDER} if transport == "fabric" else {}
    config = write_config(tmp_path, Transport=transport, NodeLossTimeoutSecs="0.5", **provider)
    with writing(nodes.contact, STEPS, config) as process:
        run_through(process, tmp_path, {moment: lambda: nodes.kill("bb0")})
    second = ask_once(nodes.nodes[1], "watch", stream="model", after=-1, change=-1, limit=1000, extremes=True)
    first = 3 if moment == "ended" else 2
    assert (second["status"], second["discarded"]) == ("closed", [])
    assert second["moved"] == [[0, "bb0", first]]
    steps = steps_of(second)
    assert [step.number for step in steps] == list(range(first, 4))
    for step in steps:
        assert values_of(nodes.nodes[1], step) == [("field", step.number), ("fine", 10.0 * step.number)]


def test_a_step_that_cannot_be_brought_again_is_skipped_and_counted(faulty_nodes, tmp_path):
    nodes = faulty_nodes(2, 32 << 20)
    config = write_config(tmp_path, Transport="tcp", NodeLossTimeoutSecs="0.5")
    code = STEPS.replace("65536", str(1 << 20))  # too large to be kept after its Put
    with writing(nodes.contact, code, config) as process:
        said = run_through(process, tmp_path, {"put": lambda: nodes.kill("bb0")})
    assert "rank 0: steps 1 skipped, 1 time(s) its BB node was lost" in said
    second = ask_once(nodes.nodes[1], "watch", stream="model", after=-1, change=-1, limit=1000, extremes=True)
    assert (second["status"], second["discarded"]) == ("closed", [2])
    assert [step.number for step in steps_of(second)] == [3]
    assert values_of(nodes.nodes[1], steps_of(second)[0]) == [("field", 3.0), ("fine", 30.0)]


def test_attributes_come_again_with_a_rank_that_moved(faulty_nodes, tmp_path):
    nodes = faulty_nodes(2, 4 << 20)
    config = write_config(tmp_path, NodeLossTimeoutSecs="0.5")
    with writing(nodes.contact, 'io.define_attribute("units", "K")\n' + STEPS, config) as process:
        run_through(process, tmp_path, {"put": lambda: nodes.kill("bb0")})
    second = ask_once(nodes.nodes[1], "watch", stream="model", after=-1, change=-1, limit=1000, extremes=True)
    sent = [item["name"] for step in second["steps"] for item in step["attributes"]]
    assert sent.count("units") == 1


@pytest.mark.parametrize("moment", PAUSES)
def test_a_rank_that_moved_says_of_which_steps_it_had_told_attributes(faulty_nodes, tmp_path, moment):
    """Also where the node is gone when the step is committed: the first step on the new one tells all."""
    nodes = faulty_nodes(2, 4 << 20)
    config = write_config(tmp_path, NodeLossTimeoutSecs="0.5")
    code = STEPS.replace("    engine.begin_step()", "    again('stepwise', step)\n    engine.begin_step()")
    code = code.replace(
        "    engine.end_step()", "    step == 1 and io.define_attribute('late', 9.0)\n    engine.end_step()"
    )
    again = "def again(name, value):\n    io.remove_attribute(name)\n    io.define_attribute(name, value)\n"
    with writing(nodes.contact, 'io.define_attribute("units", "K")\n' + again + code, config) as process:
        run_through(process, tmp_path, {moment: lambda: nodes.kill("bb0")})
    second = ask_once(nodes.nodes[1], "watch", stream="model", after=-1, change=-1, limit=1000, extremes=True)
    first, *others = second["steps"]
    told = {(item["name"], item.get("since", first["step"]), item["value"]) for item in first["attributes"]}
    stepwise = {("stepwise", step, step) for step in (0, 1, first["step"])}
    if moment == "ended":
        told.discard(("stepwise", 2, 2))  # of a rank that has heard of the loss before it told what follows
    assert told == stepwise | {("late", 1, 9.0), ("units", 0, "K")}
    assert all(item.get("since") is None for step in others for item in step["attributes"])


def test_without_another_node_the_loss_is_an_error_that_says_so(faulty_nodes, tmp_path):
    nodes = faulty_nodes(1, 4 << 20)
    config = write_config(tmp_path, NodeLossTimeoutSecs="0.5")
    with writing(nodes.contact, STEPS, config) as process:
        wait_for_file(tmp_path / "begun")
        nodes.kill("bb0")
        for name in PAUSES:
            (tmp_path / f"after-{name}").touch()
        returncode, said = finish(process)
    assert returncode != 0
    assert "BB node bb0 did not come back within NodeLossTimeoutSecs=0.5" in said


def test_a_rank_brings_its_part_of_the_step_to_the_node_of_the_others(faulty_nodes, tmp_path):
    nodes = faulty_nodes(2, 8 << 20)
    code = STEPS.replace("field(65536)", "field(65536, 2 * 65536, 65536 * rank)").replace(
        "pause(name):", "pause(name, own=rank):\n    name += f'.{own}'"
    )
    configs = [write_config(tmp_path, Rank=str(rank), Writers="2", NodeLossTimeoutSecs="0.5") for rank in range(2)]
    with (
        writing(nodes.contact, code, configs[0], rank=0, writers=2) as first,
        writing(nodes.contact, code, configs[1], rank=1, writers=2) as second,
    ):
        for pause in ("begun.0", "begun.1", "put.0", "put.1", "ended.0", "ended.1"):
            wait_for_file(tmp_path / pause)
            if pause == "put.0":
                nodes.kill("bb0")
            if pause == "put.1":  # rank 1 ends its step when rank 0 has
                continue
            (tmp_path / f"after-{pause}").touch()
            if pause == "ended.0":
                (tmp_path / "after-put.1").touch()
        assert finish(first)[0] == 0
        assert finish(second) == (0, "")
    shown = ask_once(nodes.nodes[1], "watch", stream="model", after=-1, change=-1, limit=1000, extremes=True)
    assert (shown["status"], shown["discarded"], shown["moved"]) == ("closed", [], [[0, "bb0", 2]])
    parts = [[block.start[0] for block in step.blocks if block.name == "field"] for step in steps_of(shown)]
    assert parts == [[65536], [65536], [0, 65536], [0, 65536]]
