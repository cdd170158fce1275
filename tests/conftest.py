import pytest
from bbflow_workflows import climate

from testsupport.once import built_once


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    """Build the example simulation once."""
    with built_once(tmp_path_factory, "climate") as directory:
        return climate.build(directory / "build")
