import pytest

from testsupport.files_servers import Servers


@pytest.fixture
def servers(short_path):
    """A master and IOnodes of their own processes, started by the test."""
    with Servers(short_path) as running:
        yield running
