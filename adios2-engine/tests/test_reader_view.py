"""What a reader makes of the nodes' `watch` replies; the program `view` runs this part of the engine alone."""

import json
import subprocess

import pytest


@pytest.fixture
def ask(programs):
    """Return the view's answers to commands."""

    def run(nodes, *commands):
        lines = [json.dumps(nodes), *(json.dumps(command) for command in commands)]
        done = subprocess.run(
            [programs / "view"], input="\n".join(lines) + "\n", capture_output=True, text=True, timeout=120
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return [(word, int(step)) for word, step in (line.split() for line in done.stdout.splitlines())]

    return run


def says(node, steps, last=None, *, status="open", writers=2, local=1, ranks=1, discarded=(), moved=()):
    """A node's reply; `steps` are those that it shows."""
    reply = {
        "status": status,
        "writers": writers,
        "local_writers": local,
        "steps": [{"step": step, "ranks": ranks} for step in steps],
        "last": max(steps, default=-1) if last is None else last,
        "more": False,
        "discarded": list(discarded),
        "moved": list(moved),
    }
    return {"node": node, "reply": reply}


def after(step):
    return {"after": step}


def test_a_step_is_ready_when_the_parts_hold_all_ranks(ask):
    assert ask(["a", "b"], says(0, [0, 1]), after(-1), says(1, [0]), after(-1), after(0)) == [
        ("wait", 0),
        ("ready", 0),
        ("wait", 1),
    ]


def test_nothing_is_ready_before_all_ranks_have_opened(ask):
    assert ask(["a", "b"], says(0, [0], writers=3), says(1, [0], writers=3), after(-1)) == [("wait", 0)]


def test_a_step_that_one_node_discarded_is_passed_over(ask):
    replies = says(0, [0, 1, 2]), says(1, [0, 2], discarded=[1])
    assert ask(["a", "b"], *replies, after(0), after(2)) == [("ready", 2), ("wait", 3)]


def test_steps_that_are_gone_already_are_passed_over(ask):
    assert ask(["a"], says(0, [5, 6], writers=1), after(-1)) == [("ready", 5)]


def test_a_reply_does_not_settle_the_steps_that_it_left_out(ask):
    full = says(0, [0, 1, 2, 3], 3, writers=1)
    assert ask(["a"], full, after(3), says(0, [4], 9, writers=1), after(3), after(9)) == [
        ("wait", 4),
        ("ready", 4),
        ("wait", 10),
    ]


@pytest.mark.parametrize(("status", "answer"), [("closed", "end"), ("aborted", "failure"), ("open", "wait")])
def test_the_end_comes_after_the_last_complete_step(ask, status, answer):
    replies = says(0, [0, 1], status=status), says(1, [0, 1], status=status)
    assert ask(["a", "b"], *replies, after(-1), after(0), after(1)) == [("ready", 0), ("ready", 1), (answer, 2)]


def test_a_step_that_an_aborted_node_has_is_waited_for_on_the_others(ask):
    aborted = says(0, [0, 1], status="aborted")
    assert ask(["a", "b"], aborted, says(1, [0]), after(0), says(1, [1]), after(0), after(1)) == [
        ("wait", 1),
        ("ready", 1),
        ("failure", 2),
    ]


def test_a_node_without_ranks_is_not_waited_for(ask):
    other = says(1, [], status="expected", writers=0, local=0)
    assert ask(["a", "b"], says(0, [0], status="closed", writers=1), other, after(-1), after(0)) == [
        ("ready", 0),
        ("end", 1),
    ]


def test_a_rank_that_moved_is_not_waited_for_on_its_old_node(ask):
    old = says(0, [0, 1], status="aborted")
    new = says(1, [0, 1], local=2), says(1, [2], local=2, ranks=2, moved=[[0, "a", 2]])
    assert ask(["a", "b"], old, *new, after(1), after(2)) == [("ready", 2), ("wait", 3)]


def test_a_lost_node_ends_the_stream_unless_its_ranks_moved(ask):
    replies = says(0, [0]), says(1, [0])
    assert ask(["a", "b"], *replies, {"lose": 0}, after(0)) == [("failure", 1)]
    moved = says(1, [1], local=2, ranks=2, moved=[[0, "a", 1]])
    assert ask(["a", "b"], *replies, {"lose": 0}, moved, after(0)) == [("ready", 1)]


def test_what_is_forgotten_is_not_there_any_more(ask):
    assert ask(["a"], says(0, [0, 1], writers=1), {"forget": 0}, after(-1)) == [("ready", 1)]
