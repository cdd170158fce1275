"""Room that is offered for the next step while a program computes."""

from bbflow.landing.client import NodeClient
from testsupport.asking import ask
from testsupport.processes import finish_well
from testsupport.waiting import until
from testsupport.writers import (
    node_status,
    run_writer,
    steps_of,
    wait_for_file,
    watch,
    watch_until,
    write_config,
    writing,
)

TWO_IN_TURN = """
ios = [io, adios2.Adios(sys.argv[1]).declare_io("model")]
engines = []
for number, own in enumerate(ios):
    own.set_parameters({"Stream": f"stream{number}"})
    own.define_variable("field", np.empty(0), [COUNT], [0], [COUNT], True)
    engines.append(own.open("out", Mode.Write))
for step in range(3):
    for own, engine in zip(ios, engines):
        assert engine.begin_step() == StepStatus.OK
        engine.put(own.inquire_variable("field"), np.full(COUNT, float(step)), Mode.Sync)
        engine.end_step()
for engine in engines:
    engine.close()
"""

MAPPINGS = """
with open("/proc/self/maps") as maps:
    print(sum(line.rstrip().endswith("/pool") for line in maps))
for engine in engines:
    engine.close()
"""

SLOW_STEPS = """
part = field(4096)
engine = io.open("out", Mode.Write)
for step in range(4):
    tell(f"computing-{step}")
    wait_for(f"computed-{step}")
    engine.begin_step()
    engine.put(part, np.full(4096, float(step)), Mode.Sync)
    engine.end_step()
tell("computing-4")
wait_for("computed-4")
engine.close()
"""


def taken_bytes(node):
    status = node_status(node)
    return status["capacity"] - status["free"]


def test_room_is_there_before_a_step_begins_and_free_again_after_the_last(small_node, tmp_path):
    with writing(small_node.contact, SLOW_STEPS, write_config(tmp_path)) as process:
        for step in range(5):
            wait_for_file(tmp_path / f"computing-{step}")
            shown = watch_until(small_node, lambda shown, step=step: shown["last"] == step - 1)
            assert len(shown["steps"]) == step
            offered = step > 0  # nobody knows what the first one needs
            until(lambda step=step, offered=offered: taken_bytes(small_node) == (step + offered) * 32768)
            assert node_status(small_node)["streams"]["model"]["written"] == step
            (tmp_path / f"computed-{step}").touch()
        finish_well(process)
    assert taken_bytes(small_node) == 4 * 32768
    began, committed = zip(*((step.began_s, step.committed_s) for step in steps_of(watch(small_node))), strict=True)
    assert all(last < next_began for last, next_began in zip(committed, began[1:], strict=False))


def test_a_program_with_two_streams_maps_the_pool_once(small_node, tmp_path):
    code = f"COUNT = 1024\n{TWO_IN_TURN}".replace("for engine in engines:\n    engine.close()", MAPPINGS)
    code_of_end, said = run_writer(small_node.contact, code, write_config(tmp_path))
    assert (code_of_end, said.split()) == (0, ["1"])


def test_a_program_with_two_streams_does_not_wait_for_its_own_offer(small_node, tmp_path):
    names, steps = ["stream0", "stream1"], range(3)
    with writing(small_node.contact, f"COUNT = 49152\n{TWO_IN_TURN}", write_config(tmp_path)) as process:
        with NodeClient(small_node.nodes[0]) as client:
            epochs = {name: ask(client, "attach", stream=name, consumers=["fold"])["epoch"] for name in names}
            for step in steps:  # the pool has room for two steps: one of each, if no offer is in the way
                for name in names:
                    watch_until(small_node, lambda shown, step=step: shown["last"] == step, name)
                for name, epoch in epochs.items():
                    ask(client, "done", stream=name, consumer="fold", epoch=epoch, step=step, checkpoint=b"")
        finish_well(process)


TOLD_IN_A_STEP = """
part = field(98304)
engine = io.open("out", Mode.Write)
for step in range(5):
    engine.begin_step()
    if step == 1:
        tell("begun")
        wait_for("told")
    engine.put(part, np.full(98304, float(step)), Mode.Sync)
    engine.end_step()
engine.close()
"""


def test_what_is_told_beside_an_offer_that_comes_to_nothing_is_heard(small_node, tmp_path):
    ends = (99).to_bytes(8, "little")
    plan = {
        "time": "", "first": 0, "begins": 0.0, "interval": 1.0, "tolerance": 0.1, "ends": ends,
        "variables": [["field", "double", 1, b"", None]], "wanted": [],
    }  # fmt: skip
    with NodeClient(small_node.nodes[0]) as client:
        epoch = ask(client, "attach", stream="model", consumers=["fold"])["epoch"]
        with writing(small_node.contact, TOLD_IN_A_STEP, write_config(tmp_path)) as process:
            for step in range(3):  # there is no room for two
                if step == 1:
                    wait_for_file(tmp_path / "begun")
                    ask(client, "plan", stream="model", epoch=epoch, plan=plan)
                    (tmp_path / "told").touch()
                watch_until(small_node, lambda shown, step=step: shown["last"] == step)
                ask(client, "done", stream="model", consumer="fold", epoch=epoch, step=step, checkpoint=b"")
            finish_well(process)
    assert [[form.folded for form in step.layout.forms] for step in steps_of(watch(small_node))] == [[-1], [1]]
