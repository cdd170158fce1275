import pytest

from testsupport.peers import Bench


@pytest.fixture
def bench(tmp_path):
    """One agent with room for 16 pages."""
    bench = Bench(tmp_path)
    yield bench
    bench.store.close()
