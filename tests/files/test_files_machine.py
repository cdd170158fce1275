"""Two clients against a plain directory: any order of their requests gives what one file system would give."""

import errno
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from testsupport.files_servers import Servers

pytestmark = pytest.mark.timeout(600)  # a search

NAMES = st.sampled_from(["a", "b", "d/a", "d/b", "d/e/a", "d", "d/e"])
CLIENTS = st.integers(0, 1)
OFFSETS = st.integers(0, 30)
BYTES = st.binary(min_size=1, max_size=25)
PIECE = ("--piece", "16")


@pytest.fixture(scope="module")
def clients():
    with tempfile.TemporaryDirectory(prefix="bb") as directory, Servers(Path(directory)) as servers:
        servers.start(nodes=2, master=PIECE)
        yield [servers.client(2), servers.client(2)]


def outcome(action):
    """Return what an action gives, or the errno that it ends with."""
    try:
        return action()
    except OSError as error:
        return error.errno


def machine_of(clients):
    class TwoClients(RuleBasedStateMachine):
        count = 0

        def __init__(self):
            super().__init__()
            TwoClients.count += 1
            self.root = f"/run{TwoClients.count}"
            self.oracle = Path(tempfile.mkdtemp(prefix="bboracle"))
            clients[0].mkdir(self.root)
            self.opened = {}

        def teardown(self):
            for file in self.opened.values():
                file[0].abandon()
            shutil.rmtree(self.oracle)

        def both(self, client, ours, theirs):
            assert outcome(lambda: ours(clients[client])) == outcome(theirs)

        def paths(self, name):
            return f"{self.root}/{name}", self.oracle / name

        def is_open(self, name):
            return name in self.opened

        @rule(client=CLIENTS, name=NAMES)
        def mkdir(self, client, name):
            path, plain = self.paths(name)
            self.both(client, lambda c: c.mkdir(path), plain.mkdir)

        @rule(client=CLIENTS, name=NAMES, content=BYTES)
        def write(self, client, name, content):
            if not self.is_open(name):
                path, plain = self.paths(name)
                self.both(client, lambda c: c.write(path, content), lambda: plain.write_bytes(content) and None)

        @rule(client=CLIENTS, name=NAMES, content=BYTES)
        def append(self, client, name, content):
            if self.is_open(name):
                return
            path, plain = self.paths(name)

            def ours(c):
                with c.open(path, "a") as file:
                    file.pwrite(content, 0)

            def theirs():
                with plain.open("ab") as file:
                    file.write(content)

            self.both(client, ours, theirs)

        @rule(client=CLIENTS, name=NAMES, offset=OFFSETS, content=BYTES, size=OFFSETS)
        def change(self, client, name, offset, content, size):
            if self.is_open(name):
                return
            path, plain = self.paths(name)

            def ours(c):
                with c.open(path, "r+") as file:
                    file.pwrite(content, offset)
                    file.truncate(size)
                    file.pwrite(content, size + 3)

            def theirs():
                descriptor = os.open(plain, os.O_RDWR)
                try:
                    os.pwrite(descriptor, content, offset)
                    os.ftruncate(descriptor, size)
                    os.pwrite(descriptor, content, size + 3)
                finally:
                    os.close(descriptor)

            self.both(client, ours, theirs)

        @rule(client=CLIENTS, name=NAMES, size=OFFSETS)
        def truncate(self, client, name, size):
            path, plain = self.paths(name)
            if not self.is_open(name) and not plain.is_dir():
                self.both(client, lambda c: c.setattr(path, size=size) and None, lambda: os.truncate(plain, size))

        @rule(client=CLIENTS, name=NAMES)
        def read(self, client, name):
            path, plain = self.paths(name)
            self.both(client, lambda c: c.read(path), plain.read_bytes)

        @rule(client=CLIENTS, name=NAMES)
        def unlink(self, client, name):
            path, plain = self.paths(name)
            if not self.is_open(name):
                self.both(client, lambda c: c.unlink(path), plain.unlink)

        @rule(client=CLIENTS, name=NAMES)
        def rmdir(self, client, name):
            path, plain = self.paths(name)
            self.both(client, lambda c: c.rmdir(path), plain.rmdir)

        @rule(client=CLIENTS, old=NAMES, new=NAMES)
        def rename(self, client, old, new):
            if not self.opened:
                (path, plain), (to, plain_to) = self.paths(old), self.paths(new)
                self.both(client, lambda c: c.rename(path, to), lambda: plain.rename(plain_to) and None)

        @precondition(lambda self: not self.opened)
        @rule(client=CLIENTS, name=NAMES, content=BYTES)
        def open_and_write(self, client, name, content):
            """What is written and not closed is nobody's."""
            path, plain = self.paths(name)
            if plain.is_file():
                file = clients[client].open(path, "r+")
                file.pwrite(content, 0)
                self.opened[name] = (file, content)

        @precondition(lambda self: self.opened)
        @rule()
        def close(self):
            name, (file, content) = self.opened.popitem()
            file.close()
            before = (self.oracle / name).read_bytes()
            (self.oracle / name).write_bytes(content + before[len(content) :])

        @rule(client=CLIENTS)
        def let_clean_ones_go(self, client):
            clients[client].flush(self.root, wait_s=60)
            clients[client].evict(self.root)

        @invariant()
        def same_names(self):
            for client in clients:
                ours = {(e.path[len(self.root) + 1 :], e.kind == "d") for e in walk(client, self.root)}
                theirs = {(p.relative_to(self.oracle).as_posix(), p.is_dir()) for p in self.oracle.rglob("*")}
                assert ours == theirs

    return TwoClients


def walk(client, path):
    for entry in client.entries(path):
        yield entry
        if entry.kind == "d":
            yield from walk(client, entry.path)


def test_two_clients_see_what_one_file_system_would_show_them(clients):
    quick = settings(
        max_examples=15,
        stateful_step_count=25,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(machine_of(clients), settings=quick)


def test_a_file_cannot_take_the_place_of_a_directory_above_it(clients):
    clients[0].mkdir("/above/d", parents=True)
    clients[0].write("/above/d/file", b"x")
    with pytest.raises(OSError, match="is in it") as refused:
        clients[1].rename("/above/d/file", "/above")
    assert refused.value.errno == errno.ENOTEMPTY
