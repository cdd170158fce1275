"""What the loop of a run waits for comes from other threads, and nobody of them waits in vain."""

import threading

import pytest

from bbflow.errors import NodeError, StreamError
from bbflow.transit.driver.intake import Inbox
from testsupport.waiting import until

LIMIT_S = 60


def ask(inbox):
    """Ask for the statistics in another thread; gives that thread, and what it gets or fails with."""
    found = []

    def wait():
        try:
            found.append(inbox.live(LIMIT_S))
        except StreamError as error:
            found.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread, found


def test_all_that_nodes_have_told_comes_at_once_and_in_its_order():
    inbox = Inbox("s")
    inbox.queue.put(("a", 1))
    inbox.wake()
    inbox.queue.put(("b", 2))
    assert inbox.take(LIMIT_S) == [("a", 1), ("b", 2)]
    assert inbox.take(0.0) == []
    assert not inbox.stopped


def test_it_is_stopped_by_any_thread_and_a_failed_watcher_is_heard():
    inbox = Inbox("s")
    inbox.stop()
    assert inbox.take(LIMIT_S) == []
    assert inbox.stopped
    inbox.queue.put(("a", NodeError("gone")))
    with pytest.raises(NodeError, match="gone"):
        inbox.take(LIMIT_S)


def test_a_node_may_have_any_name():
    inbox = Inbox("s")
    told = [(name, "news") for name in ("stop", "task", "live", "None")]
    for item in told:
        inbox.queue.put(item)
    assert inbox.take(LIMIT_S) == told
    assert not inbox.stopped
    inbox.queue.put(("stop", NodeError("gone")))
    with pytest.raises(NodeError, match="gone"):
        inbox.take(LIMIT_S)
    inbox.close()


def test_who_asks_when_a_node_or_the_answer_fails_is_told_so():
    inbox = Inbox("s")
    inbox.queue.put(("a", NodeError("gone")))
    asking = [ask(inbox)]
    until(lambda: inbox.queue.qsize() == 2)
    with pytest.raises(NodeError, match="gone"):
        inbox.take(LIMIT_S)
    with pytest.raises(ZeroDivisionError):
        inbox.answer(lambda: 1 / 0)
    inbox.close()
    asking.append(ask(inbox))
    for thread, found in asking:
        thread.join(LIMIT_S / 2)
        assert [type(item) for item in found] == [StreamError]


def test_who_asks_gets_one_answer_which_is_made_for_all_of_them():
    inbox, made = Inbox("s"), []
    asking = [ask(inbox) for _ in range(3)]
    until(lambda: inbox.queue.qsize() == len(asking))
    inbox.take(LIMIT_S)
    inbox.answer(lambda: made.append(1) or "dataset")
    inbox.answer(lambda: made.append(2))
    for thread, _ in asking:
        thread.join(LIMIT_S)
    assert ([found for _, found in asking], made) == ([["dataset"]] * 3, [1])


def test_who_asks_while_it_ends_is_told_so():
    inbox = Inbox("s")
    thread, found = ask(inbox)
    until(lambda: not inbox.queue.empty())
    inbox.close()
    thread.join(LIMIT_S)
    assert str(found[0]) == "nothing of stream 's' is being folded: try again later"
