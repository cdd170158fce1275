import os

import pytest

from bbflow.staging import File
from bbflow.staging.shelf import Shelf


@pytest.fixture
def make(tmp_path):
    """Make files of random bytes below `tmp_path/source`."""
    (tmp_path / "source").mkdir()

    def make(name, size_bytes):
        path = tmp_path / "source" / name
        path.write_bytes(os.urandom(size_bytes))
        return path

    return make


@pytest.fixture
def as_file():
    return lambda path: File(str(path), path.stat().st_size)


@pytest.fixture
def shelf(tmp_path):
    shelf = Shelf(tmp_path / "bb")
    yield shelf
    shelf.close()
