"""How a stream stands is found from what changes; it is what a look at all nodes would find."""

from copy import deepcopy

from hypothesis import given
from hypothesis import strategies as st

from bbflow.stream.layouts import BlockForm, Layout
from bbflow.stream.records import Step
from bbflow.view.stream import Arrival, News, StreamView

NODES = ("a", "b", "c")
LAYOUT = Layout.of((BlockForm("v", "float", "GlobalArray", (4,), (0,), (4,), 0, 0, 0, 16),))


def step(number, ranks):
    return Step(number, LAYOUT, (0,), (), (), b"", 0.0, 0.0, ranks)


arrivals = st.lists(st.builds(Arrival, st.integers(0, 3), st.sampled_from(NODES), st.integers(0, 5)), max_size=1)
told = st.builds(
    News,
    status=st.sampled_from(["expected", "open", "closed", "aborted"]),
    writers=st.integers(0, 4),
    local_writers=st.integers(0, 2),
    steps=st.lists(st.builds(step, st.integers(0, 5), st.integers(1, 2)), max_size=2).map(tuple),
    last=st.integers(-1, 5),
    more=st.booleans(),
    arrivals=arrivals.map(tuple),
)
steady = st.builds(News, st.just("open"), st.just(3), st.just(1), last=st.integers(-1, 9))


@given(st.lists(st.tuples(st.sampled_from(NODES), st.one_of(told, steady)), max_size=20), st.booleans())
def test_the_standing_is_what_a_look_at_all_nodes_finds(news, whole):
    view = StreamView(NODES, dict.fromkeys(NODES, -1), whole=whole)
    for node, own in news:
        view.update(node, own)
        afresh = deepcopy(view)._find_standing()
        assert (view.frontier, view.status) == (afresh.frontier, afresh.status)
        assert (view.taking_part.keys(), view._now().writers) == (afresh.taking_part.keys(), afresh.writers)


@given(st.lists(st.tuples(st.sampled_from(NODES), st.integers(0, 9)), max_size=30))
def test_the_frontier_follows_the_hindmost_node(news):
    view, lasts = StreamView(NODES, dict.fromkeys(NODES, -1)), dict.fromkeys(NODES, -1)
    for node in NODES:
        view.update(node, News("open", len(NODES), 1))
    for node, last in news:
        lasts[node] = max(lasts[node], last)
        view.update(node, News("open", len(NODES), 1, last=last))
        assert view.frontier == min(lasts.values())
