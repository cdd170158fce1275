"""fsspec's own contract, by its own tests: copies, up- and downloads, moves, transactions, and what stands on them."""

import fsspec
import pytest
from fsspec.tests import abstract

from testsupport.files_servers import Servers


@pytest.fixture(scope="module")
def contact(tmp_path_factory):
    with Servers(tmp_path_factory.mktemp("f")) as servers:
        servers.start(storage=False)
        yield str(servers.contact)


@pytest.fixture
def system(contact):
    files = fsspec.filesystem("bb", contact=contact)
    yield files
    for path in files.ls("/", detail=False):
        files.rm(path, recursive=True)


class BurstBufferFixtures(abstract.AbstractFixtures):
    """What the tests need to know of bb://."""

    @pytest.fixture
    def fs(self, system):
        return system

    @pytest.fixture
    def fs_path(self):
        return "/below"


class TestCopies(abstract.AbstractCopyTests, BurstBufferFixtures):
    """Copies within."""


class TestDownloads(abstract.AbstractGetTests, BurstBufferFixtures):
    """Copies from it."""


class TestUploads(abstract.AbstractPutTests, BurstBufferFixtures):
    """Copies to it."""


class TestOpening(abstract.AbstractOpenTests, BurstBufferFixtures):
    """Exclusive creation."""


class TestPipes(abstract.AbstractPipeTests, BurstBufferFixtures):
    """Whole contents."""


def both(system):
    """bb:// and what fsspec has as an example, which must do the same; with the names below a directory."""
    memory = fsspec.filesystem("memory")
    for each in (system, memory):
        each.pipe({"/m/d/a": b"1", "/m/d/sub/b": b"2", "/m/f": b"3", "/m/g": b"4"})
        each.makedirs("/m/e/there", exist_ok=True)
    return (system, memory)


@pytest.mark.parametrize(
    ("source", "target", "recursive"),
    [
        ("/m/f", "/m/e/there/", False),
        ("/m/f", "/m/e/there", False),
        ("/m/f", "/m/new/deep", False),
        ("/m/f", "/m/g", False),
        ("/m/d", "/m/e/there", True),
        ("/m/d", "/m/e/there/", True),
        ("/m/d", "/m/new", True),
        ("/m/[fg]", "/m/e/there", False),
        (["/m/f", "/m/g"], "/m/e/there", False),
        (["/m/f", "/m/g"], ["/m/x", "/m/y"], False),
    ],
)
def test_a_move_ends_where_it_ends_in_other_file_systems(system, source, target, recursive):
    found = []
    for each in both(system):
        each.mv(source, target, recursive=recursive)
        found.append({path: each.cat_file(path) for path in each.find("/m")})
        each.rm("/m", recursive=True)
    assert found[0] == found[1]


def test_a_name_with_a_wildcard_is_itself_when_it_is_moved(system):
    system.pipe({"/m/[fg]": b"1", "/m/f": b"2"})
    system.mv("/m/[fg]", "/m/h")
    assert system.find("/m") == ["/m/f", "/m/h"]


def test_what_is_written_in_a_transaction_counts_at_its_end_or_never(system):
    system.pipe({"/t/old": b"old", "/t/kept": b"kept"})
    for fails in (True, False):
        try:
            with system.transaction:
                system.pipe_file("/t/new", b"new")
                with system.open("/t/old", "ab") as file:
                    file.write(b"er")
                with system.open("/t/kept", "r+b") as file:
                    file.write(b"K")
                system.cp_file("/t/kept", "/t/copy")
                assert system.cat_file("/t/old") == b"old"
                assert not system.exists("/t/new")
                with pytest.raises(FileExistsError):
                    system.open("/t/old", "xb")
                if fails:
                    raise InterruptedError
        except InterruptedError:
            assert system.find("/t") == ["/t/kept", "/t/old"]
    assert {path: system.cat_file(path) for path in system.find("/t")} == {
        "/t/copy": b"kept",
        "/t/kept": b"Kept",
        "/t/new": b"new",
        "/t/old": b"older",
    }
