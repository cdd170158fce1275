"""What a policy allows is shared out among transfers that don't see each other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bbflow.staging import Decision
from bbflow.staging.share import share_of


@given(
    st.one_of(st.none(), st.floats(1e3, 1e9)),
    st.one_of(st.none(), st.integers(1, 8)),
    st.integers(1, 8),
    st.integers(1, 50),
)
def test_all_shares_together_are_what_a_policy_allows(pace, at_most, fetchers, nodes):
    shares = [share_of(Decision(bytes_per_s=pace, fetchers=at_most), n, fetchers, nodes) for n in range(fetchers)]
    running = [share for share in shares if not share.hold]
    assert len(running) == min(at_most or fetchers, fetchers)
    if pace is not None:
        assert nodes * sum(share.bytes_per_s for share in running) == pytest.approx(pace)
    assert all(share_of(Decision(hold=True), n, fetchers, nodes).hold for n in range(fetchers))
