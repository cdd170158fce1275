"""Two mounts against a plain directory: any order of calls gives what one file system would give."""

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from testsupport.files_servers import Servers
from testsupport.mounts import Mounts

pytestmark = pytest.mark.timeout(600)  # a search

NAMES = st.sampled_from(["a", "b", "d", "d/a", "d/b", "d/e", "d/e/a"])
MOUNTS = st.integers(0, 1)
OFFSETS = st.integers(0, 100_000)
CONTENTS = st.builds(lambda size, byte: bytes([byte]) * size, st.integers(1, 90_000), st.integers(1, 255))
MODES = st.sampled_from([os.O_RDONLY, os.O_RDWR | os.O_CREAT, os.O_WRONLY | os.O_CREAT | os.O_EXCL,
                         os.O_RDWR | os.O_TRUNC, os.O_WRONLY | os.O_APPEND | os.O_CREAT])  # fmt: skip


@pytest.fixture(scope="module")
def tops(tmp_path_factory):
    """Two mounts with small pieces, and a plain directory."""
    with Servers(tmp_path_factory.mktemp("servers")) as servers:
        servers.start(nodes=2, storage=False, master=("--piece", "64KiB"))
        with Mounts(tmp_path_factory.mktemp("mounts")) as mounts:
            one = mounts.start("one", contact=servers.contact)
            yield one, mounts.start("two", contact=servers.contact), tmp_path_factory.mktemp("plain")


def outcome(action):
    """Return what a call gives, or the errno that it ends with."""
    try:
        return action()
    except OSError as error:
        return error.errno


def tree(top):
    """Return all that is below a directory: kinds, sizes and contents."""
    found = {}
    for folder, folders, files in os.walk(top):
        for name in folders:
            found[os.path.relpath(f"{folder}/{name}", top)] = None
        for name in files:
            path = Path(folder, name)
            found[str(path.relative_to(top))] = (path.stat().st_size, path.read_bytes())
    return found


def machine_of(tops):
    class TwoMounts(RuleBasedStateMachine):
        runs = 0

        def __init__(self):
            super().__init__()
            TwoMounts.runs += 1
            self.roots = [top / f"run{TwoMounts.runs}" for top in tops]
            for root in (self.roots[0], self.roots[2]):
                root.mkdir()
            self.open = {}

        def teardown(self):
            for name in list(self.open):
                self.close(name)
            for root in (self.roots[0], self.roots[2]):
                shutil.rmtree(root)

        def both(self, mount, call):
            """Do the same through a mount and in the plain directory."""
            ours, theirs = (outcome(lambda root=root: call(root)) for root in (self.roots[mount], self.roots[2]))
            assert ours == theirs

        @rule(mount=MOUNTS, name=NAMES)
        def mkdir(self, mount, name):
            self.both(mount, lambda root: (root / name).mkdir())

        @rule(mount=MOUNTS, name=NAMES)
        def remove(self, mount, name):
            if not self.is_open(name):
                self.both(mount, lambda root: os.unlink(root / name))
                self.both(mount, lambda root: os.rmdir(root / name))

        @rule(mount=MOUNTS, old=NAMES, new=NAMES)
        def rename(self, mount, old, new):
            if not self.is_open(old) and not self.is_open(new):
                self.both(mount, lambda root: os.rename(root / old, root / new))

        @rule(mount=MOUNTS, name=NAMES, content=CONTENTS)
        def write(self, mount, name, content):
            if not self.is_open(name):
                self.both(mount, lambda root: (root / name).write_bytes(content))

        @rule(mount=MOUNTS, name=NAMES, size=OFFSETS)
        def truncate(self, mount, name, size):
            if not self.is_open(name):
                self.both(mount, lambda root: os.truncate(root / name, size))

        @rule(mount=MOUNTS, name=NAMES, mode=st.sampled_from([0o600, 0o644, 0o755]))
        def chmod(self, mount, name, mode):
            self.both(mount, lambda root: os.chmod(root / name, mode))
            self.both(mount, lambda root: os.stat(root / name).st_mode)

        @rule(mount=MOUNTS, name=NAMES, flags=MODES)
        def open_file(self, mount, name, flags):
            if self.is_open(name):
                return
            two = [
                outcome(lambda root=root: [os.open(root / name, flags)]) for root in (self.roots[mount], self.roots[2])
            ]
            if isinstance(two[1], list) and isinstance(two[0], list) and (self.roots[2] / name).is_file():
                self.open[name] = [*two[0], *two[1]]
            else:
                self.same_end(two)

        def same_end(self, two):
            """Both have failed alike, or have opened a directory."""
            opened = [one for one in two if isinstance(one, list)]
            for (descriptor,) in opened:
                os.close(descriptor)
            assert len(opened) == 2 or two[0] == two[1]

        def is_open(self, name):
            return any(there == name or there.startswith(f"{name}/") for there in self.open)

        @rule(data=st.data(), offset=OFFSETS, content=CONTENTS)
        def write_open(self, data, offset, content):
            if self.open:
                self.on_open(data, lambda file: os.pwrite(file, content, offset))

        @rule(data=st.data(), offset=OFFSETS, size=OFFSETS)
        def read_open(self, data, offset, size):
            if self.open:
                self.on_open(data, lambda file: os.pread(file, size, offset))

        @rule(data=st.data(), size=OFFSETS)
        def truncate_open(self, data, size):
            if self.open:
                self.on_open(data, lambda file: os.ftruncate(file, size))

        @rule(data=st.data())
        def close_some(self, data):
            if self.open:
                self.close(data.draw(st.sampled_from(sorted(self.open))))

        def on_open(self, data, call):
            files = self.open[data.draw(st.sampled_from(sorted(self.open)))]
            ours, theirs = (outcome(lambda file=file: call(file)) for file in files)
            assert ours == theirs

        def close(self, name):
            for file in self.open.pop(name):
                os.close(file)

        @invariant()
        def both_mounts_show_what_is_closed(self):
            if not self.open:
                assert tree(self.roots[0]) == tree(self.roots[1]) == tree(self.roots[2])

    return TwoMounts


def test_two_mounts_do_what_one_plain_directory_does(tops):
    examples = settings(max_examples=15, stateful_step_count=25, deadline=None,
                        suppress_health_check=list(HealthCheck))  # fmt: skip
    run_state_machine_as_test(machine_of(tops), settings=examples)
