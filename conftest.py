"""For all test folders: BB nodes, and hypothesis without a clock and with other examples in every run.

`pytest --hypothesis-seed=N` repeats those of the run that has printed N.
"""

import gc
import os
import secrets
import shutil
import sys

import pytest
from hypothesis import HealthCheck, settings

from testsupport.mounts import unmount_dead
from testsupport.once import directory_of_run
from testsupport.stores import Stores, assert_opens

# Collecting makes what lives to the end of the run: to look at it for garbage over and over took a third of its time.
gc.disable()
pytest_plugins = ["testsupport.nodes", "testsupport.object_server", "testsupport.warm"]
# What builds their programs is beside this Python, and need not be in the system.
os.environ["PATH"] = f"{os.environ.get('PATH', os.defpath)}:{os.path.dirname(sys.executable)}"
# Programs that tests build again in each run are compiled once where there is ccache.
if found := shutil.which("ccache"):
    os.environ.setdefault("CMAKE_CXX_COMPILER_LAUNCHER", found)

# Every run looks at other examples; `make explore` at many more at once.
settings.register_profile(
    "exploring", max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("thorough", settings.get_profile("exploring"), max_examples=2000)
settings.load_profile("exploring")


@pytest.hookimpl(tryfirst=True)  # before hypothesis reads it, and before pytest-xdist hands it to its processes
def pytest_configure(config):
    """Choose the seed of this run's examples, unless one is given."""
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(secrets.randbits(32))


def pytest_report_header(config):
    """Print it."""
    return f"hypothesis seed: {config.option.hypothesis_seed}"


@pytest.fixture(scope="session")
def _stores(tmp_path_factory):
    return Stores(tmp_path_factory.getbasetemp())


@pytest.fixture(autouse=True)
def _stores_open(_stores, request):
    """See after each test that others' programs read all stores that it has made, unless it is marked `odd_stores`."""
    yield
    own = request.node.funcargs.get("tmp_path")
    made = _stores.new(request.module, own and own.name)
    if request.node.get_closest_marker("odd_stores") is None:
        for store in made:
            assert_opens(store)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Run the tests of a file in one process, since they share what they set up, where several share the suite.

    Files that need what the machine has once name a common group.
    """
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


def pytest_collection_finish(session):
    """Leave what has been collected out of further searches for garbage."""
    gc.freeze()
    gc.enable()
    _assert_groups(session)


def _assert_groups(session):
    """See that files have groups: pytest-xdist 3.8 drops all, without a word, with a pytest newer than itself (9.2)."""
    if getattr(session.config.option, "loadgroup", False):
        alone = [item.nodeid for item in session.items if "@" not in item.nodeid]
        assert not alone, f"pytest-xdist has put {alone[0]} into no group: take the pytest that setup.cfg names"


@pytest.fixture(scope="session", autouse=True)
def _no_dead_mounts(tmp_path_factory):
    """Pytest clears directories of earlier runs away, which a dead mount prevents."""
    if os.geteuid() == 0:
        unmount_dead(directory_of_run(tmp_path_factory))
