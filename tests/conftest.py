import pytest
from bbflow_workflows import climate


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    """Build the example simulation once."""
    return climate.build(tmp_path_factory.mktemp("climate") / "build")
