"""For all test folders: BB nodes, and hypothesis without a clock and with the same examples in every run.

`pytest --hypothesis-profile=default` looks for new examples.
"""

import os

import pytest
from hypothesis import HealthCheck, settings

from testsupport.mounts import unmount_dead

pytest_plugins = ["testsupport.nodes"]

settings.register_profile(
    "steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("steady")


@pytest.fixture(scope="session", autouse=True)
def _no_dead_mounts(tmp_path_factory):
    """Pytest clears directories of earlier runs away, which a dead mount prevents."""
    if os.geteuid() == 0:
        unmount_dead(tmp_path_factory.getbasetemp().parent)
