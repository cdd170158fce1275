import pytest

from testsupport.files_servers import Servers
from testsupport.mounts import Mounts, missing

REASON = missing()


def pytest_collection_modifyitems(items):
    if REASON:
        for item in items:
            if "mount" in item.path.parts:
                item.add_marker(pytest.mark.skip(reason=REASON))


@pytest.fixture
def mounts(tmp_path):
    with Mounts(tmp_path) as running:
        yield running


@pytest.fixture
def servers(tmp_path_factory):
    with Servers(tmp_path_factory.mktemp("servers")) as running:
        yield running


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """Files striped in small pieces over two IOnodes, and two mounts of them, for all tests of a module."""
    with Servers(tmp_path_factory.mktemp("shared")) as servers:
        servers.start(nodes=2, storage=False, master=("--piece", "64KiB"))
        with Mounts(tmp_path_factory.mktemp("mounts")) as mounts:
            one = mounts.start("one", contact=servers.contact)
            two = mounts.start("two", "--no-passthrough", contact=servers.contact)
            yield one, two


@pytest.fixture
def pair(shared, request):
    """One directory of the test's own, as both mounts show it."""
    one, two = (where / request.node.name for where in shared)
    one.mkdir()
    return one, two
