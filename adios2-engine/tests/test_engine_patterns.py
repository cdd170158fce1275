"""Which stream and which node a rank writes to."""

from contextlib import ExitStack

import pytest

from bbflow.landing.embedded import EmbeddedNodes
from testsupport.asking import ask_once
from testsupport.processes import finish
from testsupport.writers import run_program, steps_of, write_config, writing

ONE_STEP = """
part = field(10)
engine = io.open("out", Mode.Write)
engine.begin_step()
engine.put(part, np.full(10, float(rank)), Mode.Sync)
engine.end_step()
engine.close()
"""


@pytest.fixture(scope="module")
def nodes():
    with EmbeddedNodes(3, 1 << 20) as nodes:
        yield nodes


def run_ranks(nodes, folder, ranks, **parameters):
    """Run ranks side by side as a job of their number."""
    with ExitStack() as stack:
        jobs = []
        for rank in range(ranks):
            config = write_config(folder, Rank=str(rank), Writers=str(ranks), **parameters)
            config = config.rename(folder / f"rank-{rank}.xml")
            jobs.append(stack.enter_context(writing(nodes.contact, ONE_STEP, config, rank=rank, writers=ranks)))
        for job in jobs:
            returncode, said = finish(job)
            assert returncode == 0, said


def landed(nodes, stream):
    """For each node that has the stream: writers, local writers and the values of its step's blocks."""
    found = {}
    for node in nodes.nodes:
        shown = ask_once(node, "watch", stream=stream, after=-1, change=-1, limit=9, extremes=True)
        if shown["status"] != "expected":
            (step,) = steps_of(shown)
            assert shown["status"] == "closed"
            found[node.name] = (shown["writers"], shown["local_writers"], [block.min for block in step.blocks])
    return found


def test_each_rank_can_write_a_stream_of_its_own(nodes, tmp_path):
    run_ranks(nodes, tmp_path, 3, Stream="own-{rank}")
    assert [landed(nodes, f"own-{rank}") for rank in range(3)] == [
        {f"bb{rank}": (1, 1, [float(rank)])} for rank in range(3)
    ]  # fmt: skip


def test_ranks_can_share_streams_in_groups(nodes, tmp_path):
    run_ranks(nodes, tmp_path, 5, Stream="group-{group}", Groups="2")
    assert landed(nodes, "group-0") == {"bb0": (3, 2, [0.0, 1.0]), "bb1": (3, 1, [2.0])}
    assert landed(nodes, "group-1") == {"bb1": (2, 1, [3.0]), "bb2": (2, 1, [4.0])}


def test_ranks_per_node_sets_the_ratio(nodes, tmp_path):
    run_ranks(nodes, tmp_path, 5, Stream="ratio", RanksPerNode="2")
    assert landed(nodes, "ratio") == {"bb0": (5, 2, [0.0, 1.0]), "bb1": (5, 2, [2.0, 3.0]), "bb2": (5, 1, [4.0])}


@pytest.mark.parametrize("rank", [0, 3, 4, 7])
def test_ranks_without_a_node_on_their_host_spread_over_all_of_them(nodes, programs, tmp_path, rank):
    contact = tmp_path / "elsewhere.json"
    contact.write_text(nodes.contact.read_text().replace(f'"host": "{nodes.nodes[0].host}"', '"host": "n017"'))
    stream = f"far-{rank}"
    elsewhere = type("Elsewhere", (), {"contact": contact})
    config = write_config(tmp_path, Stream=stream, Rank=str(rank), Writers="8")
    run_program(elsewhere, programs, "stepless", config)
    here = [
        (node.name, shown["local_writers"])
        for node in nodes.nodes
        if (shown := ask_once(node, "watch", stream=stream, after=-1, change=-1, limit=9, extremes=True))["writers"]
    ]
    assert here == [(f"bb{rank * 3 // 8}", [3, 3, 2][rank * 3 // 8])]
