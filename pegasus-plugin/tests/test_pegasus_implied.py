"""Edges that others imply go, and nobody waits for less."""

from bbflow_pegasus.planning import implied
from hypothesis import given
from hypothesis import strategies as st

JOBS = [f"job-{number}" for number in range(12)]


@st.composite
def workflows(draw):
    """Return parents by job: each waits for some of those before it."""
    return {job: draw(st.lists(st.sampled_from(JOBS[:n]), unique=True)) if n else [] for n, job in enumerate(JOBS)}


def above(parents):
    """Return all that each job waits for, however long the way."""
    found = {}
    for job in JOBS:
        found[job] = set(parents[job]).union(*(found[parent] for parent in parents[job]))
    return found


@given(workflows(), st.sets(st.sampled_from(JOBS)))
def test_jobs_wait_for_the_same_others_by_edges_that_are_all_needed(parents, children):
    gone = implied.implied_edges(parents, children, block_jobs=5)
    left = {job: [p for p in parents[job] if (p, job) not in gone] for job in JOBS}
    assert above(left) == above(parents)
    assert {child for _, child in gone} <= children
    for child in children:
        for parent in left[child]:
            assert not any(parent in above(left)[other] for other in left[child])
