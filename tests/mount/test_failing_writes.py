"""Writes that fail, IOnodes that are killed and several openers: what counts is what writes that went well say."""

import errno
import os
from contextlib import ExitStack, closing, contextmanager

import psutil
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from testsupport.client_files import MountedFile, PythonFile
from testsupport.files_servers import Servers
from testsupport.mounts import Mounts, files_of_at_most
from testsupport.processes import Starter
from testsupport.waiting import until

pytestmark = pytest.mark.timeout(600)  # a search

PIECE = 16384
OFFSETS = st.integers(0, 5 * PIECE)
SIZES = st.integers(1, 3 * PIECE)
GONE = (errno.EIO, errno.EHOSTDOWN)


class MountedTwice:
    """A file of the mount that is open twice: writes go through either."""

    def __init__(self, place, name, mode):
        self._files = [MountedFile(place, name, each) for each in (mode, "r+")]

    def write(self, content, offset):
        self._files.reverse()
        return self._files[0].write(content, offset)

    def truncate(self, size):
        self._files[0].truncate(size)

    def sync(self):
        self._files[1].sync()

    def content(self):
        return self._files[1].content()

    def close(self):
        for file in self._files:
            file.close()


class Place:
    """Files in small pieces on two IOnodes, both clients of them, and who looks from elsewhere."""

    def __init__(self, servers, mounts, *, by_messages):
        self.servers, self.by_messages = servers, by_messages
        self.client = servers.start(nodes=2, storage=False, master=("--piece", str(PIECE)))
        for name in self.nodes:
            self._open_to_others(name)
        words = ("--patience", "0.5")
        self.top = mounts.start("top", *words, contact=servers.contact, restore_signals=False)
        self._mount = mounts.pid("top")
        self._looker = servers.client(2)

    def _open_to_others(self, name):
        """Where others may write, clients open no pieces by themselves."""
        if self.by_messages:
            (self.servers.directory / name).chmod(0o777)

    @property
    def nodes(self):
        return [name for name in self.servers.processes if "io" in name]

    @contextmanager
    def no_longer_piece_files_than(self, size_bytes, kind):
        """Make writes of a kind of client's and of IOnodes into longer files fail."""
        # The kernel would shorten a limited program's write before the mount hears of it.
        client = self._mount if kind is MountedTwice else os.getpid()
        with ExitStack() as limited:
            for pid in (client, *(self.servers.processes[name][0].pid for name in self.nodes)):
                limited.enter_context(files_of_at_most(psutil.Process(pid), size_bytes))
            yield

    def kill(self, name):
        self.servers.kill(name)
        until(lambda: self.servers.up(self._looker) == 1, "the master to miss it")

    def restart(self, name):
        (self.servers.directory / name).chmod(0o700)  # else it refuses to work there
        self.servers.spawn(*self.servers.processes[name][1])
        until(lambda: self.servers.up(self._looker) == 2, "the IOnode")
        self._open_to_others(name)

    def committed(self, name):
        """Return what a file is for all others."""
        file = self._looker.open(f"/{name}", "r", wait_s=0)
        try:
            return file.pread(file.size, 0)
        finally:
            file.close()


def machine_of(place, kind):
    class Writing(RuleBasedStateMachine):
        count = 0

        def __init__(self):
            super().__init__()
            Writing.count += 1
            self.name = f"{kind.__name__}{Writing.count}"
            self.byte, self.down, self.file = 0, None, None
            place.client.write(f"/{self.name}", b"")
            self.committed = self.content = b""

        def teardown(self):
            self.revive()
            if self.file is not None:
                self.close()
            self.others_see_what_is_committed()
            place.client.unlink(f"/{self.name}")

        def next_bytes(self, size):
            self.byte = self.byte % 255 + 1
            return bytes([self.byte]) * size

        @precondition(lambda self: self.file is None and self.down is None)
        @rule(mode=st.sampled_from(["w", "r+", "r+"]))
        def open(self, mode):
            self.file = kind(place, self.name, mode)
            self.content = bytearray() if mode == "w" else bytearray(self.committed)

        def written(self, content, offset):
            """Return what the file is once some bytes are written."""
            now = self.content + bytes(max(offset + len(content) - len(self.content), 0))
            now[offset : offset + len(content)] = content
            return now

        @precondition(lambda self: self.file is not None)
        @rule(offset=OFFSETS, size=SIZES)
        def write(self, offset, size):
            self.try_to_write(offset, size, GONE if self.down else ())

        @precondition(lambda self: self.file is not None and self.down is None)
        @rule(offset=OFFSETS, size=SIZES, most=st.integers(0, PIECE - 1))
        def write_what_fits(self, offset, size, most):
            with place.no_longer_piece_files_than(most, kind):
                self.try_to_write(offset, size, (errno.EFBIG,))

        def try_to_write(self, offset, size, errors):
            """Write, which may fail by one of these errors: bytes that were to be written may be there then, or not."""
            content, done, failed = self.next_bytes(size), 0, None
            try:
                done = self.file.write(content, offset)
            except OSError as error:
                failed = error.errno
            assert failed is None or failed in errors
            if done:
                self.content = self.written(content[:done], offset)
            if done < size:
                self.look_what_was_written(self.written(content, offset))

        def look_what_was_written(self, whole):
            self.revive()
            seen = bytearray(self.file.content())
            assert len(seen) == len(self.content)
            assert all(byte in both for byte, *both in zip(seen, self.content, whole, strict=False))
            self.content = seen

        @precondition(lambda self: self.file is not None)
        @rule(size=OFFSETS)
        def truncate(self, size):
            self.file.truncate(size)
            self.content[size:] = bytes(max(size - len(self.content), 0))

        @precondition(lambda self: self.file is not None and self.down is None)  # else it waits
        @rule()
        def sync(self):
            self.file.sync()
            self.committed = bytes(self.content)

        @precondition(lambda self: self.file is not None and self.down is None)
        @rule()
        def close(self):
            file, self.file = self.file, None
            file.close()
            self.committed = bytes(self.content)

        @precondition(lambda self: place.by_messages and self.down is None)
        @rule(name=st.sampled_from(place.nodes))
        def kill(self, name):
            place.kill(name)
            self.down = name

        @rule()
        def revive(self):
            if self.down is not None:
                place.restart(self.down)
                self.down = None

        @precondition(lambda self: self.file is not None and self.down is None)
        @rule()
        def its_writer_sees_what_it_wrote(self):
            assert self.file.content() == self.content

        @invariant()
        def others_see_what_is_committed(self):
            if self.down is None:
                assert place.committed(self.name) == self.committed

    return Writing


@pytest.fixture(scope="module", params=[False, True], ids=["in its directory", "by messages"])
def place(request, tmp_path_factory):
    directory, top = tmp_path_factory.mktemp("servers"), tmp_path_factory.mktemp("mounts")
    with closing(Starter()) as starter, Servers(directory, starter) as servers, Mounts(top) as mounts:
        yield Place(servers, mounts, by_messages=request.param)


@pytest.mark.parametrize("kind", [PythonFile, MountedTwice])
def test_what_counts_is_what_writes_that_went_well_say(place, kind):
    examples = settings(max_examples=6, stateful_step_count=20, deadline=None,
                        suppress_health_check=list(HealthCheck))  # fmt: skip
    run_state_machine_as_test(machine_of(place, kind), settings=examples)
