import numpy as np
from cases import batches, masked, merged_results
from hypothesis import given, settings
from hypothesis import strategies as st

from bbflow.operators import parse_operators


@given(batches(), st.data())
@settings(deadline=None, max_examples=150)
def test_any_split_and_any_order_of_merges_gives_the_share_of_positive_values(case, data):
    values, fill, _ = case
    results = merged_results(data, parse_operators(["positive_share"]), values, fill)
    whole = np.nan_to_num(masked(values, fill))
    total = np.abs(whole).sum(axis=0)
    expected = np.divide(
        100 * np.maximum(whole, 0).sum(axis=0), total, where=total > 0, out=np.full(len(total), np.nan)
    )
    np.testing.assert_allclose(results["positive_share"], expected, rtol=1e-12)
