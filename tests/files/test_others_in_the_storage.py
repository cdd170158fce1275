"""Two clients and somebody who writes to the storage itself: nothing that anybody wrote is lost without being named."""

import os
import random
import socket
from contextlib import suppress
from pathlib import Path

import pytest

from bbflow.cli import main
from bbflow.files.names import CONFLICT
from testsupport.waiting import until

NAMES = ["a", "b", "d/c", "d/e"]


class Crowd:
    """Acts at random, and notes which contents somebody meant to overwrite or to remove: all others must be there."""

    def __init__(self, servers, seed):
        self.dice, self.storage = random.Random(seed), servers.storage
        self.clients = [servers.start(), servers.client()]
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
        client, name = self.dice.choice(self.clients), self.dice.choice(NAMES)
        seen = self.seen(client, name)
        client.write(name, self.content())
        self.alive.discard(seen)

    def rename(self):
        client, (old, new) = self.dice.choice(self.clients), self.dice.sample(NAMES, 2)
        self.seen(client, old)
        seen = self.seen(client, new)
        with suppress(FileNotFoundError):
            client.rename(old, new)
            self.alive.discard(seen)

    def unlink(self):
        client, name = self.dice.choice(self.clients), self.dice.choice(NAMES)
        seen = self.seen(client, name)
        with suppress(FileNotFoundError):
            client.unlink(name)
            self.alive.discard(seen)

    def outsider_writes(self):
        """Either into the file that is there or by a new one, as programs do."""
        path = self.storage / self.dice.choice(NAMES)
        path.parent.mkdir(exist_ok=True, parents=True)
        content = self.content()
        if self.dice.random() < 0.5:
            aside = path.with_name("theirs.part")
            aside.write_bytes(content)
            before = path.read_bytes() if path.exists() else None
            aside.rename(path)
        else:
            before = path.read_bytes() if path.exists() else None
            path.write_bytes(content)
        self.alive.discard(before)

    def outsider_removes(self):
        path = self.storage / self.dice.choice(NAMES)
        if path.exists():
            self.alive.discard(path.read_bytes())
            path.unlink()

    def refresh(self):
        self.dice.choice(self.clients).refresh("/")

    def evict(self):
        self.dice.choice(self.clients).evict("/")

    def act(self):
        acts = [self.write, self.write, self.rename, self.unlink, self.outsider_writes, self.outsider_writes]
        acts += [self.outsider_removes, self.refresh, self.evict, self.settle]
        self.dice.choice(acts)()

    def settle(self):
        """Wait until nothing is under way: else an outsider could be faster than the look before a rename."""
        until(lambda: self.clients[0].flush(wait_s=60).left == 0, "the write-back")

    def files(self):
        return {
            str(path.relative_to(self.storage)): path.read_bytes() for path in self.storage.rglob("*") if path.is_file()
        }


@pytest.mark.parametrize("seed", range(4))
def test_nothing_that_anybody_wrote_is_lost_without_being_named(servers, seed):
    crowd = Crowd(servers, seed)
    for _ in range(60):
        crowd.settle()
        crowd.act()
        crowd.act()
    crowd.settle()
    files, client = crowd.files(), crowd.clients[1]
    assert crowd.alive <= set(files.values())
    client.refresh("/")
    assert {name: client.read(name) for name in files} == files
    assert set(client.status()[0].conflicts) == {name for name in files if CONFLICT in name}


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
        (servers.storage / name).write_bytes(b"somebody's new")
        client.rename(name, f"{name}-moved")
    assert client.flush(wait_s=60).left == 0
    assert client.read("one/kept-moved") == (servers.storage / "one/kept-moved").read_bytes() == b"v1"
    (status,) = client.status()
    assert status.lost == ("two/gone-moved",)
    assert ("two/gone-moved", True) in [(path, "somebody else" in why) for path, why in status.unread]
    assert client.read("one/kept") == client.read("two/gone") == b"somebody's new"
