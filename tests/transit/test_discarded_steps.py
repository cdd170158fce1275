"""What the engine discards for want of room is a loss: the run says which steps these were, and so do its results."""

from bbflow import start_nodes
from bbflow.configuring.step_time import TimeConfig
from bbflow.drain.rescuing import Rescue
from bbflow.landing.client import NodeClient
from bbflow.net.contact import read_contact
from bbflow.transit.output.decoding import open_results
from bbflow.view.stream import NAMED, described_discards
from testsupport.asking import ask
from testsupport.peers import OPEN
from testsupport.waiting import PATIENCE_S
from testsupport.writers import write, write_config

STEPS = 12
WRITE = f"""
when, part = io.define_variable("time", np.zeros(1)), field(2048)
io.define_attribute("time/units", "days since 2001-01-01")
engine = io.open("model", Mode.Write)
for step in range({STEPS}):
    engine.begin_step()
    engine.put(when, np.array([step / 4]), Mode.Sync)
    engine.put(part, np.full(2048, float(step)), Mode.Sync)
    engine.end_step()
engine.close()
"""


def test_results_without_the_last_steps_are_incomplete(tmp_path):
    with start_nodes(1, "64KiB") as nodes:
        write(nodes.contact, WRITE, write_config(tmp_path, QueueFullPolicy="Discard"))
        with nodes.analyse(
            {"stream": "model", "output": str(tmp_path / "out"), "operators": {"field": ["mean"]}}
        ) as analysis:
            outcome = analysis.wait()
    (told,) = outcome.errors
    landed = STEPS - outcome.discarded
    assert not outcome.complete
    assert 0 < landed == outcome.steps < STEPS
    assert told.startswith(f"{outcome.discarded} of {STEPS} steps were discarded")
    assert told.endswith(f": {landed} to {STEPS - 1}")
    with open_results(tmp_path / "out" / "results.zarr") as results:
        assert results.attrs["bbflow_status"] == "incomplete"
        assert results.attrs["bbflow_left_out"] == [told]


def test_a_rescue_without_the_last_steps_is_incomplete(tmp_path):
    with start_nodes(1, "64KiB") as nodes:
        write(nodes.contact, WRITE, write_config(tmp_path, QueueFullPolicy="Discard"))
        rescued = Rescue(nodes.contact, "model", tmp_path / "out", TimeConfig()).run()
    (told,) = rescued.refused
    assert not rescued.complete
    assert told.startswith(f"{STEPS - rescued.steps} of {STEPS} steps were discarded")


def test_a_stream_of_which_every_step_was_discarded_has_none(tmp_path):
    with start_nodes(1, "64KiB") as nodes:
        with NodeClient(read_contact(nodes.contact)[0]) as rank:
            ask(rank, "open", **OPEN, stream="model", rank=0, writers=1, local_writers=1, policy="Block")
            for step in range(3):
                ask(rank, "begin", step=step, bytes=0)
                ask(rank, "skip", step=step)
            ask(rank, "close")
        with nodes.analyse(
            {"stream": "model", "output": str(tmp_path / "out"), "operators": {"field": ["mean"]}}
        ) as analysis:
            outcome = analysis.wait(PATIENCE_S)
    assert (outcome.complete, outcome.steps, outcome.discarded) == (False, 0, 3)
    assert outcome.errors[0].startswith("3 of 3 steps were discarded")
    assert outcome.errors[0].endswith(": 0 to 2")


def test_stretches_are_named_up_to_a_number():
    (told,) = described_discards({3, 7, 4, 5}, 9)
    assert told.startswith("4 of 9 steps")
    assert told.endswith(": 3 to 5, 7")
    (told,) = described_discards(range(0, 2 * NAMED + 4, 2), 99)
    assert told.endswith(f", {2 * NAMED - 2} and 2 more stretches")
    assert described_discards(set(), 9) == []
