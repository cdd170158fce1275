import pytest
import xarray as xr


@pytest.fixture
def opened(request):
    """Opens datasets that are closed after the test."""

    def open_dataset(nodes, **keys):
        keys = {"stream": "model", "timeout_s": 300.0} | keys
        dataset = xr.open_dataset(nodes.contact, engine="bbflow", **keys)
        request.addfinalizer(dataset.close)
        return dataset

    return open_dataset
