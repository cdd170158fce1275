"""Attributes by which numbers are read: however the nodes' news interleave, the changes are those of the program."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bbflow.reading.wire_types import Attribute
from bbflow.stream.layouts import BlockForm, Layout
from bbflow.stream.records import Step
from bbflow.view.stream import News, StreamView

STEPS = 6
HAS = Layout.of((BlockForm("v", "double", "GlobalValue", (), (), (), 0),))
HAS_NOT = Layout.of(())
NAMES = ("v/scale_factor", "v/_FillValue", "v/units")
TOLD = st.dictionaries(st.sampled_from(NAMES), st.sampled_from([1.0, 2.0, float("nan")]), max_size=3)


def news(number, told, since=0, status="open", repeated=()):
    """What a node says of one step; what is repeated in it was told to another node that is lost."""
    attributes = tuple(Attribute(name, "double", value) for name, value in told.items())
    step = Step(number, HAS if number >= since else HAS_NOT, attributes=(*repeated, *attributes))
    return News(status, 1, 1, (step,), number, attributes=told)


def repeated(told):
    """What the engine repeats of the steps before: as each was first, when it first changed, and as it is."""
    known = {}
    for number, own in enumerate(told):
        for name, value in own.items():
            if repr(known.setdefault(name, [(number, value)])[-1][1]) != repr(value):
                known[name] = [*known[name][:2], (number, value)]
    return [Attribute(name, "double", value, at) for name, own in known.items() for at, value in own]


def of_program(program, since):
    """Return the changes of a program, and by what its numbers are read."""
    known, changes, late = {}, [], set()
    for number, told in enumerate(program):
        for name, value in sorted(told.items()):
            if name in known and repr(known[name]) != repr(value):
                changes.append((number, name))
            elif name not in known and number > since and name != "v/units":
                changes.append((number, name))
                late.add(name)
        known |= told
    firsts = {name: value for told in reversed(program) for name, value in told.items() if name not in late}
    return changes, firsts


@given(
    program=st.lists(TOLD, min_size=STEPS, max_size=STEPS),
    since=st.integers(0, STEPS - 1),
    begins=st.lists(st.integers(0, STEPS - 1), max_size=3),
    order=st.randoms(use_true_random=False),
)
def test_changes_are_those_of_the_program_in_whatever_order_the_nodes_tell_them(program, since, begins, order):
    """A node that a rank comes to later hears with its first step all that held until then."""
    queues = []
    for node, begin in enumerate([0, *begins]):
        again = repeated(program[:begin])
        steps = [news(n, program[n], since, repeated=again if n == begin else ()) for n in range(begin, STEPS)]
        queues.append([(str(node), step) for step in steps])
    view = StreamView([str(node) for node in range(len(queues))], {str(n): -1 for n in range(len(queues))})
    while left := [queue for queue in queues if queue]:
        view.update(*order.choice(left).pop(0))
    changes, firsts = of_program(program, since)
    assert [(change.step, change.name) for change in view.changes] == changes
    assert repr(sorted(view.attributes.items())) == repr(sorted(firsts.items()))


@given(
    program=st.lists(TOLD, min_size=STEPS, max_size=STEPS),
    since=st.integers(0, STEPS - 1),
    begin=st.integers(1, STEPS - 1),
    first=st.booleans(),
)
def test_what_only_a_lost_node_was_told_first_is_dated_by_the_node_that_takes_over(program, since, begin, first):
    """Of rank 0 only what it tells its second node is heard, of another rank all; `begin` is the first step there."""
    others = [("b", news(n, {}, since)) for n in range(STEPS)]
    steps = [
        news(n, program[n], since, repeated=repeated(program[:n]) if n == begin else ()) for n in range(begin, STEPS)
    ]
    told = [("c", step) for step in steps]
    view = StreamView(["b", "c"], {"b": -1, "c": -1}, whole=False)
    for node, own in [*told, *others] if first else [*others, *told]:
        view.update(node, own)
    changes, firsts = of_program(program, since)
    first_changes = {name: number for number, name in reversed(changes)}
    found = {change.name: change.step for change in reversed(view.changes)}
    assert found == first_changes
    assert repr(sorted(view.attributes.items())) == repr(sorted(firsts.items()))


@pytest.mark.parametrize("through", [2, 3])
def test_packing_that_comes_with_the_first_step_after_an_earlier_analysis_comes_late(through):
    view = StreamView(["a"], {"a": through})
    view.update("a", news(3, {"v/scale_factor": 2.0, "v/units": "K"}))
    assert [change.name for change in view.changes] == ["v/scale_factor"]
    assert view.attributes == {"v/units": "K"}


@pytest.mark.parametrize("first", ["a", "b"], ids="{} is heard first".format)
def test_packing_of_the_first_step_is_not_late_where_an_analysis_died_between_the_commits_to_two_nodes(first):
    """The node with rank 0 holds the step, whose attributes it alone has been told; the other has let it go."""
    view = StreamView(["a", "b"], {"a": -1, "b": 0})
    told = {"a": [news(0, {"v/scale_factor": 2.0}), news(1, {})], "b": [news(1, {})]}
    for node in sorted(told, key=lambda node: node != first):
        for own in told[node]:
            view.update(node, own)
    assert (view.changes, view.attributes) == ([], {"v/scale_factor": 2.0})


def test_rank_0_of_a_stream_that_is_not_whole_is_waited_for():
    view = StreamView(["b", "c"], {"b": -1, "c": -1}, whole=False)
    other = Layout.of((BlockForm("v", "double", "GlobalValue", (), (), (), 1),))
    view.update("b", News("open", 2, 1, (Step(0, other),), 0))
    assert not view.is_told
    view.update("c", news(1, {}))
    assert view.is_told


@pytest.mark.parametrize("first", ["a", "b"], ids="{} is heard first".format)
def test_a_node_that_came_back_empty_tells_nothing_new(first):
    """Its rank, which alone tells attributes, tells all once more with the first step there."""
    view = StreamView(["a", "b"], {"a": -1, "b": -1})
    of_node = {"a": range(3, 6), "b": range(6)}
    for node in sorted(of_node, key=lambda node: node != first):
        for number in of_node[node]:
            again = repeated([{"v/scale_factor": 2.0}]) if (node, number) == ("a", 3) else ()
            view.update(node, news(number, {}, repeated=again))
    assert (view.changes, view.attributes) == ([], {"v/scale_factor": 2.0})
    view.update("a", news(6, {"v/_FillValue": 9.0}))
    assert [change.name for change in view.changes] == ["v/_FillValue"]


def test_what_many_nodes_tell_is_one_change():
    nodes = [f"bb{number}" for number in range(100)]
    view = StreamView(nodes, dict.fromkeys(nodes, -1))
    for number, told in enumerate(({"v/scale_factor": 1.0}, {}, {"v/scale_factor": 2.0}, {"v/_FillValue": 9.0})):
        for node in nodes:
            view.update(node, news(number, told))
    assert list(map(str, view.changes)) == [
        "v/scale_factor is 1.0, but from step 2 on 2.0",
        "v/_FillValue comes with step 3, after steps that have v",
    ]
    assert view.attributes == {"v/scale_factor": 1.0}
