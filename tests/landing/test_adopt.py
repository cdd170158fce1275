import subprocess
import sys

import pytest

from bbflow.errors import ConfigError, StreamError
from bbflow.landing.adopt import adopt
from bbflow.store.index import Index
from testsupport.peers import LOSS_S, PAGE, STREAM, content_of


def spill(directory, rank, steps, settled=-1, writers=1, closes=True):
    """Write what a rank without a node leaves."""
    where = {"stream": STREAM, "rank": rank}
    counts = {"writers": writers, "local_writers": writers, "loss_timeout_s": LOSS_S}
    index = Index(directory / f"{STREAM}.{rank}.index")
    index.append({"record": "open", "settled": settled, "moved_from": "", **where, **counts})
    for step in steps:
        file = directory / f"{STREAM}.{step}.{rank}.spill"
        file.write_bytes(bytes([step]) * PAGE)
        block = {"name": "v", "type": "uint8_t", "kind": "LocalArray", "count": [PAGE], "offset": 0, "bytes": PAGE}
        what = {"step": step, "attributes": []} | content_of([block | {"file": str(file)}], rank)
        index.append({"record": "commit", "began_s": 1.0, "committed_s": 2.0} | where | what)
    if closes:
        index.append({"record": "close", "attributes": []} | where)
    index.close()


@pytest.fixture
def spilled(tmp_path):
    (tmp_path / "pfs").mkdir()
    return tmp_path / "pfs"


def steps_of(bench):
    return [step["step"] for step in bench.watch()["steps"]]


def test_steps_of_ranks_without_a_node_become_a_node_s(bench, spilled):
    for rank in (0, 1):
        spill(spilled, rank, range(3), writers=2)
    assert adopt(bench.store, spilled) == 2
    reply = bench.watch()
    assert (steps_of(bench), reply["status"]) == ([0, 1, 2], "closed")
    assert [form[6] for form in reply["steps"][0]["forms"]] == [0, 1]
    assert adopt(bench.store, spilled) == 0


def test_steps_that_were_written_while_the_node_was_gone_follow_those_that_it_has(bench, spilled):
    bench.open()
    bench.land(0)
    bench.land(1)
    spill(spilled, 0, [1, 2, 3], settled=0)
    bench.reopen()
    adopt(bench.store, spilled)
    assert (steps_of(bench), bench.watch()["status"]) == ([0, 1, 2, 3], "closed")


def test_a_gap_before_what_was_spilled_is_named(bench, spilled):
    bench.open()
    bench.land(0)
    spill(spilled, 0, [3], settled=2)
    with pytest.raises(StreamError, match="brings step 3 of rank 0, but the node lacks one before it"):
        adopt(bench.store, spilled)


def test_adopted_files_go_when_their_steps_are_done(bench, spilled):
    spill(spilled, 0, [0])
    adopt(bench.store, spilled)
    epoch = bench.attach("fold")["epoch"]
    bench.done(0, epoch)
    assert not list(spilled.glob("*.spill"))


def test_a_directory_that_is_not_there_is_named(bench, tmp_path):
    with pytest.raises(ConfigError, match="there is no directory"):
        adopt(bench.store, tmp_path / "none")


def test_a_node_says_what_it_has_adopted(tmp_path, spilled):
    words = [
        "--name",
        "a",
        "--contact",
        tmp_path / "contact.json",
        "--capacity",
        "1MiB",
        "--directory",
        tmp_path / "bb",
    ]
    command = [sys.executable, "-m", "bbflow", "node", *map(str, words), "--adopt", str(spilled), "--with-parent"]

    def said():
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300).stderr

    assert f"adopted nothing, since there is nothing new in {spilled}" in said()
    spill(spilled, 0, range(3))
    assert f"adopted the steps of 1 ranks in {spilled}" in said()
