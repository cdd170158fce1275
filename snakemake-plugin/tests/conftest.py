"""Fixtures of the plugin's tests."""

import pytest
from flows import Flow


@pytest.fixture
def flow(tmp_path):
    return Flow(tmp_path)
