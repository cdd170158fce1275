"""A stream belongs to one analysis: who has another output is refused, or says that it takes over."""

import pytest

from testsupport.peers import ANALYSIS, OPEN, STREAM

MINE, YOURS = "/pfs/mine (inode 1)", "/pfs/yours (inode 2)"


def attach(bench, owner, peer=ANALYSIS, **more):
    return bench.say(peer, "attach", stream=STREAM, consumers=["fold"], owner=owner, **more)


def test_another_analysis_is_refused_and_the_first_goes_on(bench):
    bench.open()
    epoch = attach(bench, MINE)["epoch"]
    refused = attach(bench, YOURS, peer=ANALYSIS + 1)
    assert not refused["ok"]
    assert f"stream '{STREAM}' belongs to the analysis into {MINE}" in refused["error"]
    assert "--take-over" in refused["error"]
    bench.land(0)
    assert bench.say(ANALYSIS, "done", stream=STREAM, consumer="fold", epoch=epoch, step=0, checkpoint=b"")["ok"]


def test_the_same_analysis_goes_on_after_its_end_and_after_the_agent_s(bench):
    bench.open()
    attach(bench, MINE)
    bench.hang_up(ANALYSIS)
    assert attach(bench, MINE, peer=ANALYSIS + 1)["epoch"] == 2
    bench.reopen()
    assert not attach(bench, YOURS)["ok"]
    assert attach(bench, MINE)["epoch"] == 3


def test_who_says_so_takes_over_and_the_first_is_told(bench):
    bench.open()
    epoch = attach(bench, MINE)["epoch"]
    assert attach(bench, YOURS, peer=ANALYSIS + 1, take_over=True)["ok"]
    late = bench.say(ANALYSIS, "done", stream=STREAM, consumer="fold", epoch=epoch, step=0, checkpoint=b"")
    assert "another analysis has taken over" in late["error"]
    assert not attach(bench, MINE)["ok"]


@pytest.mark.parametrize("opened", [False, True])
def test_a_name_that_nobody_has_opened_is_free_when_its_analysis_is_gone(bench, opened):
    attach(bench, MINE)
    attach(bench, MINE, peer=ANALYSIS + 1)
    bench.hang_up(ANALYSIS)
    assert not attach(bench, YOURS)["ok"], "one of its analyses is there"
    if opened:
        bench.open()
    bench.hang_up(ANALYSIS + 1)
    assert attach(bench, YOURS)["ok"] != opened


def test_a_dropped_stream_s_name_is_free(bench):
    bench.open()
    attach(bench, MINE)
    bench.say(0, "close", steps=0)
    bench.say(ANALYSIS, "drop", stream=STREAM)
    assert attach(bench, YOURS)["ok"]


def test_a_second_open_says_what_its_program_may_lack(bench):
    bench.open()
    again = OPEN | {"stream": STREAM, "rank": 0, "writers": 1, "local_writers": 1, "policy": "Block"}
    assert "'{open}' in Stream" in bench.say(1, "open", **again)["error"]
