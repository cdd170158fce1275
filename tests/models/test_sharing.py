"""Max-min fairness: nothing is overfull, and nobody could get more without taking it from someone who has less."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bbflow.models.sharing import fair_rates


@st.composite
def sharings(draw):
    resources, flows = draw(st.integers(1, 6)), draw(st.integers(1, 12))
    numbers = st.floats(0.1, 100)
    capacities = np.array(draw(st.lists(numbers, min_size=resources, max_size=resources)))
    sets = st.sets(st.integers(0, resources - 1), min_size=1, max_size=3)
    through = np.full((flows, 3), -1)
    for row in through:
        used = sorted(draw(sets))
        row[: len(used)] = used
    columns = [np.array(draw(st.lists(kind, min_size=flows, max_size=flows))) for kind in (
        st.integers(1, 5).map(float), numbers | st.just(np.inf), st.sampled_from([0.5, 1.0, 2.0])
    )]  # fmt: skip
    return capacities, through, *columns


def loads(rates, capacities, through, counts):
    return np.array([(rates * counts)[(through == each).any(axis=1)].sum() for each in range(len(capacities))])


@given(sharings())
def test_no_resource_carries_more_than_it_can(sharing):
    capacities, through, counts, limits, weights = sharing
    rates = fair_rates(capacities, through, counts, limits, weights)
    assert (loads(rates, capacities, through, counts) <= capacities * (1 + 1e-6)).all()
    assert (rates <= limits * (1 + 1e-9)).all()


@given(sharings())
def test_every_flow_is_at_its_limit_or_has_a_full_resource_in_which_none_has_more(sharing):
    capacities, through, counts, limits, weights = sharing
    rates = fair_rates(capacities, through, counts, limits, weights)
    full = loads(rates, capacities, through, counts) >= capacities * (1 - 1e-6)
    levels = rates / weights
    for flow, used in enumerate(through):
        bottlenecks = [
            each for each in used[used >= 0]
            if full[each] and levels[(through == each).any(axis=1)].max() <= levels[flow] * (1 + 1e-6)
        ]  # fmt: skip
        assert bottlenecks or rates[flow] >= limits[flow] * (1 - 1e-9)


@given(sharings(), st.randoms(use_true_random=False))
def test_the_order_of_flows_means_nothing(sharing, random):
    capacities, *columns = sharing
    order = list(range(len(columns[0])))
    random.shuffle(order)
    shuffled = fair_rates(capacities, *(column[order] for column in columns))
    np.testing.assert_allclose(shuffled, fair_rates(capacities, *columns)[order])


def test_a_row_that_stands_for_several_flows_equals_as_many_rows():
    several = fair_rates(np.array([9.0]), np.array([[0], [0]]), np.array([2.0, 1.0]), np.full(2, np.inf), np.ones(2))
    rows = fair_rates(np.array([9.0]), np.zeros((3, 1), int), np.ones(3), np.full(3, np.inf), np.ones(3))
    assert several.tolist() == [3, 3]
    assert rows.tolist() == [3, 3, 3]
