import pytest
from servers import Servers


@pytest.fixture
def servers(tmp_path):
    """A master and IOnodes of their own processes, started by the test."""
    with Servers(tmp_path) as running:
        yield running
