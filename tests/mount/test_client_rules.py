"""Both clients of the files' protocol, in Python and in C++, keep the rules of versions, pieces and room (FORMAT.md).

`client_rules.json` has them as data: what is done to a file, and what its master has of it then. Each piece is
told by the number of the commit that made it, and how many bytes of it count; `pages` is the memory of one copy.
`fail` is a write of which half the bytes land: neither clients nor IOnodes may write longer files then; `lose` lets
all IOnodes end and begin again without what lay there, and `refused` is a commit that must fail.
"""

import errno
import json
import os
import shutil
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import psutil
import pytest

from bbflow.files.replies import AttrReply, OpenFileReply
from bbflow.files.requests import CloseFileRequest, LookupRequest, OpenFileRequest
from testsupport.client_files import MountedFile, PythonFile
from testsupport.files_servers import Servers
from testsupport.mounts import Mounts, errno_of, files_of_at_most
from testsupport.processes import Starter
from testsupport.waiting import until

RULES = json.loads(Path(__file__).with_name("client_rules.json").read_text())


class Place:
    """Files of one master, both clients of it, and who looks at what it has."""

    def __init__(self, servers, mounts, copies, *, by_messages):
        words = ("--piece", str(RULES["piece_bytes"]), "--replicas", str(copies))
        self.client = servers.start(nodes=copies + 1, storage=False, master=words)
        self._servers, self._by_messages = servers, by_messages
        self._nodes = [name for name in servers.processes if "io" in name]
        self._open_to_others()
        self.copies, self.top = copies, mounts.start("top", contact=servers.contact, restore_signals=False)
        self._mount = mounts.pid("top")
        self._looker = servers.client()

    def _open_to_others(self):
        """Where others may write, clients open no pieces by themselves."""
        for name in self._nodes if self._by_messages else ():
            (self._servers.directory / name).chmod(0o777)

    def lose(self):
        """End all IOnodes, and start them again without what lay there."""
        for name in self._nodes:
            self._servers.kill(name)
            shutil.rmtree(self._servers.directory / name)
        until(lambda: not self._servers.up(self._looker), "the master to miss them")
        for name in self._nodes:
            self._servers.spawn(*self._servers.processes[name][1])
        until(lambda: self._servers.up(self._looker) == len(self._nodes), "the IOnodes")
        self._open_to_others()

    @contextmanager
    def no_longer_piece_files_than(self, size_bytes, kind):
        """Make writes of a kind of client's and of IOnodes into longer files fail."""
        # The kernel would shorten a limited program's write before the mount hears of it.
        client = self._mount if kind is MountedFile else os.getpid()
        with ExitStack() as limited:
            for pid in (client, *(self._servers.processes[name][0].pid for name in self._nodes)):
                limited.enter_context(files_of_at_most(psutil.Process(pid), size_bytes))
            yield

    def look(self, name):
        """Return size, version and pieces of a file, as its master has it."""
        session, below = self._looker.session_of(f"/{name}")
        ino = session.call(LookupRequest(parent=session.root, name=below), AttrReply).attr.ino
        told = session.call(OpenFileRequest(ino=ino, wait_s=0), OpenFileReply)
        session.tell(CloseFileRequest(handle=told.handle))
        return told.attr.size, told.attr.version, told.pieces

    def pages(self):
        """Return the memory that lies on all nodes."""
        (status,) = self._looker.status()
        return sum(node.placed_bytes for node in status.nodes) // 4096


@pytest.fixture(scope="module", params=["one copy", "two copies", "by messages"])
def place(request, tmp_path_factory):
    copies, by_messages = 1 + (request.param == "two copies"), request.param == "by messages"
    directory, top = tmp_path_factory.mktemp("servers"), tmp_path_factory.mktemp("mounts")
    with closing(Starter()) as starter, Servers(directory, starter) as servers, Mounts(top) as mounts:
        yield Place(servers, mounts, copies, by_messages=by_messages)


@pytest.mark.parametrize("kind", [PythonFile, MountedFile])
@pytest.mark.parametrize("case", RULES["cases"], ids=lambda case: case["rule"])
def test_a_client_keeps_the_rules(place, kind, case):
    name, content, commits = "f", bytearray(), {}
    before = place.pages()

    def look():
        size, version, pieces = place.look(name)
        commits.setdefault(version, len(commits) + 1)
        return size, [[commits[made] if made else 0, count] for made, count in pieces]

    for number, (mode, *actions) in enumerate(case["steps"]):
        if mode == "w":
            content.clear()
        file = kind(place, name, mode)
        for what, *numbers in actions:
            if what == "write":
                offset, size = numbers
                written = bytes([1 + number]) * size
                content.extend(bytes(max(offset + size - len(content), 0)))
                content[offset : offset + size] = written
                assert file.write(written, offset) == size
            elif what == "fail":
                offset, size = numbers
                with place.no_longer_piece_files_than(offset % RULES["piece_bytes"] + size // 2, kind):
                    assert errno_of(file.write, bytes([99]) * size, offset) == errno.EFBIG
            elif what == "truncate":
                (size,) = numbers
                content[size:] = bytes(max(size - len(content), 0))
                file.truncate(size)
            elif what == "lose":
                place.lose()
            elif what == "refused":
                assert errno_of(file.sync) == errno.EIO
            else:
                file.sync()
                look()
        file.close()
        size, pieces = look()
    while pieces and pieces[-1] == [0, 0]:  # what is behind the last piece is zeros, whether it is said or not
        pieces.pop()
    assert (size, pieces) == (case["size"], case["pieces"])
    until(lambda: place.pages() - before == case["pages"] * place.copies, "the memory that the rule says")
    assert place.client.read(f"/{name}") == (place.top / name).read_bytes() == content
    place.client.unlink(f"/{name}")
    until(lambda: place.pages() == before, "the memory of what was removed")
