import tempfile
from pathlib import Path

import pytest

from testsupport.files_servers import Servers


@pytest.fixture
def short_path():
    """A directory whose name leaves room for that of a Unix socket."""
    with tempfile.TemporaryDirectory(prefix="bb") as directory:
        yield Path(directory)


@pytest.fixture
def servers(short_path):
    """A master and IOnodes of their own processes, started by the test."""
    with Servers(short_path) as running:
        yield running
