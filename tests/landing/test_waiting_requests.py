"""Requests that wait for room."""

import pytest

from bbflow.errors import NodeError
from bbflow.landing.waiting_requests import Queues, Waiting


def queues_of(*requests):
    queues = Queues()
    for peer, alike in requests:
        queues.add(Waiting(peer, {}, alike))
    return queues


def test_of_requests_that_are_alike_only_the_first_is_tried_while_it_must_wait():
    queues, tried = queues_of((1, "a"), (2, "a"), (3, "b")), []
    assert queues.answer(lambda waiting: tried.append(waiting.peer)) == []
    assert tried == [1, 3]


def test_requests_that_are_alike_are_answered_in_their_order_as_far_as_there_is_room():
    queues, room = queues_of((1, "a"), (2, "a"), (3, "a")), [{"ok": 1}, {"ok": 2}]
    assert queues.answer(lambda waiting: room.pop(0) if room else None) == [(1, {"ok": 1}), (2, {"ok": 2})]
    assert [waiting.peer for waiting in queues] == [3]


def test_each_can_be_tried_and_those_that_must_wait_keep_their_order():
    queues = queues_of((1, "a"), (2, "a"), (3, "a"))
    assert queues.answer(lambda waiting: {} if waiting.peer == 2 else None, each=True) == [(2, {})]
    assert [waiting.peer for waiting in queues] == [1, 3]


def test_a_peer_that_is_gone_waits_no_more():
    queues = queues_of((1, "a"), (2, "a"), (1, "b"))
    queues.remove(1)
    assert [waiting.peer for waiting in queues] == [2]
    assert not queues.has_alike(Waiting(9, {}, "b"))


def test_nobody_waits_for_room_in_a_pool_that_is_gone(bench):
    bench.open()
    bench.land(0, pages=10)
    assert bench.begin(0, 1, 10) is None
    bench.expire()
    assert bench.agent.next_deadline_s() <= bench.clock.now_s + 1.0
    (bench.directory / "pool").unlink()
    with pytest.raises(NodeError, match="was removed, cut or replaced"):
        bench.wait(1.0)
