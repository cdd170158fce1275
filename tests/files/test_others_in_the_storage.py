"""Two clients and someone who writes to the storage itself: nothing that anybody wrote is lost without being named."""

import os
import random
import socket
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from bbflow.cli import main
from bbflow.errors import ConflictError, MissingSourceError
from bbflow.files.names import CONFLICT
from bbflow.stores.facts import Expected
from bbflow.stores.local_files import EXCHANGE, NOREPLACE, renamed
from bbflow.stores.sources import Sources
from testsupport.waiting import until

NAMES = ["a", "b", "d/c", "d/e"]


class Directory:
    """A storage, and someone who writes there to what no client knows, and sees what that takes the place of."""

    def __init__(self, base):
        self.base, self.url = base, None

    def write(self, name, content):
        path, aside = self.base / name, self.base / "theirs.part"
        path.parent.mkdir(exist_ok=True, parents=True)
        aside.write_bytes(content)
        while True:
            with suppress(FileExistsError):
                renamed(str(aside), str(path), NOREPLACE)
                return None
            with suppress(FileNotFoundError):
                renamed(str(aside), str(path), EXCHANGE)
                return self._taken(aside)

    def write_into(self, name, content):
        """As `cp` does: into the file that is there, if there is one. What happens meanwhile, nobody could tell."""
        path = self.base / name
        before = path.read_bytes() if path.exists() else None
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_bytes(content)
        return before

    def remove(self, name):
        aside = self.base / "theirs.part"
        with suppress(FileNotFoundError):
            (self.base / name).rename(aside)
            return self._taken(aside)
        return None

    def _taken(self, path):
        content = path.read_bytes()
        path.unlink()
        return content

    def files(self):
        return {str(path.relative_to(self.base)): path.read_bytes() for path in self.base.rglob("*") if path.is_file()}


class Bucket:
    """The same of S3, by requests with conditions."""

    def __init__(self, name):
        self.url, self._sources = f"s3://bucket/{name}", Sources()

    def write(self, name, content):
        while True:
            with suppress(ConflictError):
                before, known = self._seen(name)
                with self._sources.create(f"{self.url}/{name}", len(content), known) as target:
                    target.write(content)
                return before

    write_into = write

    def remove(self, name):
        while True:
            with suppress(ConflictError):
                before, known = self._seen(name)
                if before is not None:
                    self._sources.remove(f"{self.url}/{name}", known)
                return before

    def _seen(self, name):
        with suppress(MissingSourceError):
            facts, content = self._sources.whole(f"{self.url}/{name}", 1 << 20)
            return content, Expected((facts.size_bytes, facts.version))
        return None, Expected(None)

    def files(self):
        return {file.name: self._seen(file.name)[0] for file in self._sources.tree(self.url)}


class Crowd:
    """Acts at random, and notes which contents someone meant to overwrite or to remove: all others must be there."""

    def __init__(self, servers, storage, seed):
        self.dice, self.storage = random.Random(seed), storage
        self.clients = [servers.start(url=storage.url), servers.client()]
        self.clients[0].mkdir("d")
        self.alive, self.count = set(), 0

    def content(self):
        """Contents of different lengths that nobody has written before."""
        self.count += 1
        token = f"<{self.count}>".encode() * self.dice.choice([1, 2, 50])
        self.alive.add(token)
        return token

    def seen(self, client, name):
        """What a client reads by a name, which its next act is meant for."""
        with suppress(OSError):
            return client.read(name)
        return None

    def write(self):
        """Read what is there, and overwrite just that."""
        client, name = self.dice.choice(self.clients), self.dice.choice(NAMES)
        with ExitStack() as opened:
            try:  # its bytes may have gone with what was done to its object
                file = client.open(name, "a", wait_s=60)
                opened.callback(file.abandon)
                seen = file.pread(1000, 0)
            except OSError:
                return
            file.truncate(0)
            file.pwrite(self.content(), 0)
            opened.pop_all()
        file.close()
        self.alive.discard(seen)

    def rename(self):
        client, (old, new) = self.dice.choice(self.clients), self.dice.sample(NAMES, 2)
        self.seen(client, old)
        seen = self.seen(client, new)
        with suppress(FileNotFoundError, FileExistsError):  # or there is an object behind a lost file
            client.rename(old, new)
            self.alive.discard(seen)

    def unlink(self):
        client, name = self.dice.choice(self.clients), self.dice.choice(NAMES)
        seen = self.seen(client, name)
        with suppress(FileNotFoundError):
            client.unlink(name)
            self.alive.discard(seen)

    def outsider_writes(self):
        self.alive.discard(self.storage.write(self.dice.choice(NAMES), self.content()))

    def outsider_writes_into(self):
        self.alive.discard(self.storage.write_into(self.dice.choice(NAMES), self.content()))

    def outsider_removes(self):
        self.alive.discard(self.storage.remove(self.dice.choice(NAMES)))

    def refresh(self):
        self.dice.choice(self.clients).refresh("/")

    def evict(self):
        self.dice.choice(self.clients).evict("/")

    def settle(self):
        until(lambda: self.clients[0].flush(wait_s=60).left == 0, "the write-back")

    def act(self, others=0):
        """Do something while nothing is under way, then as many others that see just what they take the place of."""
        self.settle()
        exact = [self.write, self.write, self.outsider_writes, self.outsider_writes, self.outsider_removes]
        exact += [self.refresh, self.evict]
        self.dice.choice([*exact, self.rename, self.unlink, self.outsider_writes_into])()
        for _ in range(others):
            self.dice.choice(exact)()

    def check(self):
        self.settle()
        self.clients[1].refresh("/")
        self.settle()
        files, client = self.storage.files(), self.clients[1]
        (status,) = client.status()
        assert self.alive <= set(files.values())
        assert {name for name in files if name in status.lost} <= {name for name, _ in status.unread}
        assert {name: files[name] if name in status.lost else client.read(name) for name in files} == files
        assert set(status.conflicts) - set(status.lost) == {name for name in files if CONFLICT in name}


@pytest.mark.parametrize(
    ("seed", "others"), [(0, 0), (1, 0), (2, 0), *(pytest.param(seed, 2, marks=pytest.mark.slow) for seed in range(9))]
)
def test_nothing_that_anybody_wrote_to_a_directory_is_lost_without_being_named(servers, seed, others):
    crowd = Crowd(servers, Directory(servers.storage), seed)
    for _ in range(90):
        crowd.act(others)
    crowd.check()


def test_nothing_that_anybody_wrote_to_a_bucket_is_lost_without_being_named(servers, known_endpoint):
    crowd = Crowd(servers, Bucket("crowd"), 1)
    for _ in range(30):
        crowd.act()
    crowd.check()


def test_new_empty_directories_are_seen_after_a_refresh_and_removed_ones_do_not_come_back(servers):
    client = servers.start()
    client.mkdir("own")
    client.write("own/f", b"1")
    assert client.flush(wait_s=60).left == 0
    client.unlink("own/f")
    client.rmdir("own")
    assert client.flush(wait_s=60).left == 0
    (servers.storage / "theirs" / "deep").mkdir(parents=True)
    client.refresh("/")
    assert [entry.path for entry in client.entries("/")] == ["/theirs"]
    assert [entry.path for entry in client.entries("/theirs")] == ["/theirs/deep"]


def test_what_is_fsynced_goes_to_the_storage_while_a_program_writes_which_is_named(servers, capsys):
    client = servers.start()
    file = client.open("log", "w")
    file.pwrite(b"line", 0)
    file.sync()
    told = client.flush(wait_s=60)
    assert (told.left, told.writing) == (0, (("log", socket.gethostname(), os.getpid()),))
    assert (servers.storage / "log").read_bytes() == b"line"
    assert main(["files", "flush", "--contact", str(servers.contact)]) == 1
    assert f"log: {Path('/proc/self/comm').read_text().strip()} (process {os.getpid()} on" in capsys.readouterr().err
    with pytest.raises(OSError, match="open for writing, as 'log'"):
        client.end(wait_s=0.3)
    file.close()
    client.end(wait_s=60)


def test_a_rename_takes_no_bytes_of_others_and_what_was_only_there_is_named_as_lost(servers):
    client = servers.start()
    names = ("one/kept", "two/gone")  # each in a directory of its own, which isn't looked at again for the other
    for name in names:
        (servers.storage / name).parent.mkdir(parents=True)
        (servers.storage / name).write_bytes(b"v1")
    client.stat("two/gone")
    assert client.read("one/kept") == b"v1"
    for name in names:
        (servers.storage / name).write_bytes(b"someone's new")
        client.rename(name, f"{name}-moved")
    assert client.flush(wait_s=60).left == 0
    assert client.read("one/kept-moved") == (servers.storage / "one/kept-moved").read_bytes() == b"v1"
    (status,) = client.status()
    assert status.lost == ("two/gone-moved",)
    assert ("two/gone-moved", True) in [(path, "someone else" in why) for path, why in status.unread]
    assert client.read("one/kept") == client.read("two/gone") == b"someone's new"
    (servers.storage / "two/gone-moved").write_bytes(b"theirs")
    client.refresh("/")
    why = "the object is left out, since a file whose bytes are lost has the name 'two/gone-moved'"
    assert ("two/gone-moved", why) in client.status()[0].unread
    client.unlink("two/gone-moved")
    client.refresh("/")
    assert client.read("two/gone-moved") == b"theirs"


def test_a_name_that_is_not_utf8_or_a_link_to_itself_keeps_no_other_file_from_being_read(servers):
    directory = servers.storage / "d"
    (directory / os.fsdecode(b"dir\xe9")).mkdir(parents=True)
    for name in (b"plain", b"lat\xe9", b"dir\xe9/inside"):
        (directory / os.fsdecode(name)).write_bytes(name)
    (directory / "loop").symlink_to("loop")
    client = servers.start()
    assert [entry.path for entry in client.entries("/d")] == ["/d/plain"]
    assert client.read("/d/plain") == b"plain"
    why = "the object is left out, since its name isn't a path"
    assert sorted(client.status()[0].unread) == [(r"d//dir\\xe9/", why), (r"d//lat\\xe9", why)]
    client.rename("/d", "/e")
    assert client.flush(wait_s=60).left == 0
    assert sorted(map(os.fsencode, os.listdir(directory))) == [b"dir\xe9", b"lat\xe9", b"loop"]
    assert os.listdir(servers.storage / "e") == ["plain"]
