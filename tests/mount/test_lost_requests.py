"""Requests that are carried out though nobody waits for them any more, and replies that get lost, with both clients."""

import errno
import signal
from contextlib import contextmanager, suppress

import pytest

from testsupport.client_files import MountedFile, PythonFile
from testsupport.files_servers import Servers
from testsupport.mounts import Mounts, errno_of
from testsupport.relays import Relay

PIECE = 65536
KINDS = pytest.mark.parametrize("kind", [PythonFile, MountedFile])


class Place:
    """Files on one IOnode that are had by messages, and relays before it and its master."""

    def __init__(self, servers, mounts):
        self._looker = servers.start(storage=False, master=("--piece", str(PIECE)))
        (servers.directory / "master-io0").chmod(0o777)  # where others may write, clients open no pieces by themselves
        self.master = Relay(servers.directory / "master" / "master.sock")
        self.node = Relay(servers.directory / "master-io0" / "ionode.sock")
        self.client = servers.client()
        self.top = mounts.start("top", "--patience", "0.5", contact=servers.contact)

    def opened(self, name):
        """Open a file as others see it now."""
        return self._looker.open(f"/{name}", wait_s=0)

    def seen(self, name):
        with self.opened(name) as file:
            return file.pread(file.size, 0)

    def close(self):
        self.master.close()
        self.node.close()


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    with Servers(tmp_path_factory.mktemp("servers")) as servers, Mounts(tmp_path_factory.mktemp("mounts")) as mounts:
        place = Place(servers, mounts)
        yield place
        place.close()


@pytest.fixture
def name(request):
    return request.node.name.translate(str.maketrans("[]", "__"))


@contextmanager
def interrupted():
    """Interrupt what is called meanwhile, as a user does."""

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    left_s, _ = signal.setitimer(signal.ITIMER_REAL, 0.3)  # of the limit of the test
    try:
        with suppress(KeyboardInterrupt):
            yield
            pytest.fail("it went on without its reply")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, left_s)


@KINDS
def test_an_interrupted_write_does_not_come_after_a_later_one(place, kind, name):
    file = kind(place, name, "w")
    file.write(b"0" * 1000, 0)
    with place.node.held():
        with interrupted():
            file.write(b"1" * 1000, 0)
        file.write(b"2" * 1000, 0)
        file.close()
    assert place.seen(name) == b"2" * 1000


@KINDS
def test_an_interrupted_write_does_not_come_after_its_file_was_closed(place, kind, name):
    file = kind(place, name, "w")
    file.write(b"0" * 1000, 0)
    with place.node.held():
        with interrupted():
            file.write(b"1" * 1000, 0)
        file.close()
    assert place.seen(name) == b"0" * 1000


@KINDS
def test_a_commit_counts_once_whose_reply_is_lost(place, kind, name):
    file = kind(place, name, "w")
    file.write(b"0" * 1000, 0)
    with place.master.losing_replies_to(b"commit", times=1):
        file.sync()
    assert place.seen(name) == b"0" * 1000
    file.write(b"1" * 1000, 500)
    with place.master.losing_replies_to(b"commit", times=1):
        file.close()
    assert place.seen(name) == b"0" * 500 + b"1" * 1000


@KINDS
def test_what_a_commit_without_a_reply_has_made_count_stays_as_it_is(place, kind, name):
    file = kind(place, name, "w")
    file.write(b"0" * 1000, 0)
    with place.master.losing_replies_to(b"commit"):
        assert errno_of(file.sync) == errno.EIO
    with place.opened(name) as counted:
        file.write(b"1" * 1000, 0)
        file.write(b"2", 3 * PIECE)
        assert counted.pread(counted.size, 0) == b"0" * 1000
    file.close()
    assert place.seen(name) == (b"1" * 1000).ljust(3 * PIECE, b"\0") + b"2"
