import pytest
import xarray as xr

from bbflow.landing.embedded import EmbeddedNodes


@pytest.fixture
def two_nodes():
    """Two BB nodes of 1 MiB."""
    with EmbeddedNodes(2, 1 << 20) as nodes:
        yield nodes


@pytest.fixture
def small_node():
    """One BB node with room for four steps of 64 KiB."""
    with EmbeddedNodes(1, 1 << 18) as nodes:
        yield nodes


@pytest.fixture
def opened(request):
    """Opens datasets that are closed after the test."""

    def open_dataset(nodes, **keys):
        keys = {"stream": "model", "timeout_s": 300.0} | keys
        dataset = xr.open_dataset(nodes.contact, engine="bbflow", **keys)
        request.addfinalizer(dataset.close)
        return dataset

    return open_dataset
