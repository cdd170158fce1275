"""What the user whose nodes root mounts for all can't do to root, with real users and the kernel's mount."""

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from testsupport.users import User, open_place, two_users
from testsupport.waiting import until

BBFLOW = [sys.executable, "-m", "bbflow"]
SECRET = "words of root's that nobody else may read\n"


@pytest.fixture
def users():
    if not Path("/dev/fuse").exists():
        pytest.skip("/dev/fuse is missing: load the kernel's module fuse")
    with two_users() as users:
        yield users


@pytest.fixture
def place(users):
    with open_place() as place:
        (place / "home").mkdir()
        users[0].own(place / "home")
        (place / "mounted").mkdir()
        (place / "secret").write_text(SECRET)
        (place / "secret").chmod(0o600)
        yield place


@contextmanager
def nodes_of(user, home):
    """Run a node of a user's that keeps files; give its contact file."""
    (home / "n").mkdir()
    user.own(home / "n")
    contact = home / "contact.json"
    words = ["node", "--name", "bb0", "--files", "none", "--directory", home / "n", "--capacity", "16MiB"]
    log = (home / "node.log").open("wb")
    with log, user.start(*BBFLOW, *words, "--contact", contact, stdout=log, stderr=log, cwd=home) as node:
        try:
            said = lambda: (home / "node.log").read_text()  # noqa: E731
            until(lambda: said().count("ready in") == 5 or node.poll() is not None, "it never came up", poll_s=0.1)
            assert node.poll() is None, (home / "node.log").read_text()
            yield contact
        finally:
            node.terminate()
            node.wait()


@contextmanager
def mounted(contact, place, *options):
    """Mount as root, for all users."""
    words = [*BBFLOW, "mount", "--allow-other", *options, contact, place / "mounted", "--log", place / "mount.log"]
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    try:
        yield place / "mounted"
    finally:
        subprocess.run([*BBFLOW, "mount", "--unmount", place / "mounted"], check=True, timeout=60)


def pieces_of(home):
    return [path for path in (home / "n").rglob("pieces/*") if path.is_file()]


LIAR = """
import socket, sys
from pathlib import Path
from bbflow.files.client.calling import Caller
from bbflow.files.commands import JoinIonode
from bbflow.net.contact import read_masters
(master,) = read_masters(Path(sys.argv[1]))
node = Caller(master.address)
of_roots = {"host": socket.gethostname(), "socket": sys.argv[2] + "/ionode.sock", "directory": sys.argv[2]}
node.send(JoinIonode(name="bb9", tcp="", tls="", capacity=1 << 24, most=1 << 24, keys=(), last=True, **of_roots))
node.receive()
print("joined", flush=True)
while True:
    node.receive()
"""


@contextmanager
def master_that_names(directory, user, contact):
    """Run a user's master, whose only IOnode is said to be in a directory of root's."""
    words = ["files", "master", "--contact", contact, "--directory", contact.parent / "m"]
    with user.start(*BBFLOW, *words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as master:
        try:
            until(lambda: contact.exists() and "subtree" in contact.read_text(), "no master came up", poll_s=0.1)
            yield lambda: user.start(sys.executable, "-c", LIAR, contact, directory, stdout=subprocess.PIPE, text=True)
        finally:
            master.terminate()


@pytest.mark.parametrize("leads", ["to its user's all the time", "to root's for a while"])
def test_a_master_that_names_the_directory_of_roots_node_has_root_open_nothing_there(users, place, leads):
    user, home, roots = users[0], place / "home", place / "roots"
    roots.mkdir()
    with nodes_of(User("root"), roots) as contact:
        subprocess.run([*BBFLOW, "files", "put", "--contact", contact, place / "secret", "/f"], check=True, timeout=60)
        before = {piece: piece.read_bytes() for piece in pieces_of(roots)}
        (piece,) = before
        link = home / "link.json"
        user.run("ln", "-s", home / "contact.json", link)
        own = master_that_names(piece.parent.parent, user, home / "contact.json")
        with own as join, mounted(link, place, "--patience", "1") as files:
            if leads == "to root's for a while":
                user.run("ln", "-sfn", contact, link)
            with join() as liar:
                try:
                    assert liar.stdout.readline() == "joined\n"
                    user.run("ln", "-sfn", home / "contact.json", link)
                    user.run("sh", "-c", f"printf 'of the user' > {files}/f; cat {files}/f", code=None)
                    words = [*BBFLOW, "files", "put", "--contact", home / "contact.json", __file__, "/g"]
                    done = subprocess.run(words, capture_output=True, text=True, timeout=100)
                    assert done.returncode != 0
                    assert {piece: piece.read_bytes() for piece in pieces_of(roots)} == before
                finally:
                    liar.terminate()


LINKS = """
import os, sys
piece, target = sys.argv[1:]
folder, name = os.path.split(piece)
first = int(name.partition(".")[0], 16)
for number in range(first + 1, first + 150):
    if not os.path.lexists(f"{folder}/{number:x}.0"):
        os.symlink(target, f"{folder}/{number:x}.0")
"""


def test_a_piece_that_is_a_link_lets_nobody_read_or_write_what_it_names(users, place):
    home = place / "home"
    with nodes_of(users[0], home) as contact, mounted(contact, place) as files:
        users[0].run("sh", "-c", f"printf 12345678 > {files}/f")
        (piece,) = pieces_of(home)
        users[0].run("sh", "-c", f"rm {piece} && ln -s {place}/secret {piece}")
        said = users[0].run("sh", "-c", f"dd if={files}/f iflag=direct bs=4096 status=none; cat {files}/f", code=None)
        assert SECRET[:20] not in said
        users[0].python(LINKS, piece, place / "made")
        users[0].run("sh", "-c", f"printf mine > {files}/g", code=None)
        assert not (place / "made").exists()
        assert (place / "secret").read_text() == SECRET


@pytest.mark.parametrize("options", [[], ["--no-passthrough"]])
def test_files_of_a_users_nodes_are_read_and_written_through_roots_mount(users, place, options):
    with nodes_of(users[0], place / "home") as contact, mounted(contact, place, *options) as files:
        users[0].run("sh", "-c", f"printf 12345678 > {files}/f && mv {files}/f {files}/g")
        assert users[0].run("cat", files / "g") == "12345678"


def test_a_log_beside_a_users_directory_is_not_written_by_root(users, place):
    home = place / "home"
    (home / "work").mkdir()
    (place / "kept").write_text("kept")
    users[0].run("ln", "-s", place / "kept", home / ".work.bbflow-mount.log")
    (home / "contact.json").write_text("{}")
    done = subprocess.run(
        [*BBFLOW, "mount", str(home / "contact.json"), str(home / "work")], capture_output=True, text=True, timeout=60
    )
    assert done.returncode != 0
    assert "say where by --log" in done.stderr
    assert (place / "kept").read_text() == "kept"


@pytest.mark.parametrize("kind", ["link", "second name", "fifo"])
def test_a_log_that_is_another_file_already_is_not_written(users, place, kind):
    (place / "kept").write_text("kept")
    log = place / "mount.log"
    {"link": log.symlink_to, "second name": log.hardlink_to, "fifo": lambda _: os.mkfifo(log)}[kind](place / "kept")
    (place / "contact.json").write_text("{}")
    words = [*BBFLOW, "mount", place / "contact.json", place / "mounted", "--log", log]
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert (place / "kept").read_text() == "kept"


@pytest.mark.parametrize("link", ["work", "above"])
def test_root_mounts_on_no_directory_that_a_users_link_leads_to(users, place, link):
    home = place / "home"
    (place / "target").mkdir()
    (place / "target" / "work").mkdir()
    if link == "work":
        users[0].run("ln", "-s", place / "target", home / "work")
        directory = home / "work"
    else:
        users[0].run("ln", "-s", place / "target", home / "above")
        directory = home / "above" / "work"
    with nodes_of(users[0], home) as contact:
        words = [*BBFLOW, "mount", "--allow-other", contact, directory, "--log", place / "mount.log"]
        done = subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=100)
    assert done.returncode != 0
    assert "root doesn't follow" in done.stderr
    assert str(place / "target") not in Path("/proc/self/mounts").read_text()


def test_a_mount_is_ended_where_it_is_and_nothing_that_a_users_link_leads_to(users, place):
    user, home, other = users[0], place / "home", place / "other" / "work"
    user.run("mkdir", "-p", home / "above" / "work")
    other.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "none", other], check=True)
    try:
        with nodes_of(user, home) as contact:
            words = [*BBFLOW, "mount", "--foreground", contact, home / "above" / "work"]
            with subprocess.Popen([*map(str, words)], stderr=subprocess.PIPE, text=True) as mount:
                try:
                    assert "ready on" in mount.stderr.readline()
                    user.run("sh", "-c", f"mv {home}/above {home}/moved && ln -s {other.parent} {home}/above")
                    words = [*BBFLOW, "mount", "--unmount", home / "above" / "work"]
                    done = subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=60)
                    assert done.returncode != 0
                    assert os.path.ismount(home / "moved" / "work")
                finally:
                    mount.terminate()
                assert mount.wait(60) == 0
            assert not os.path.ismount(home / "moved" / "work")
            assert os.path.ismount(other)
    finally:
        subprocess.run(["umount", "--lazy", other], check=True)


NAME = """
import sys
from pathlib import Path
from bbflow.landing.embedded import own_directory
print(own_directory(Path(sys.argv[1]), "bb0", Path(sys.argv[2])))
"""


def test_a_node_goes_on_only_with_a_directory_of_its_users_own(users, place):
    """As when another user has made it first, where everybody may make directories."""
    shared = place / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    (place / "own").mkdir()
    users[1].own(place / "own")
    name = users[1].python(NAME, shared, place / "own" / "contact.json").strip()
    (place / "home" / "trap").mkdir()
    (place / "home" / "trap").chmod(0o777)
    users[0].run("ln", "-s", place / "home" / "trap", name)
    words = [*BBFLOW, "node", "--name", "bb0", "--directory", shared, "--capacity", "4MiB", "--contact"]
    said = users[1].run(*words, place / "own" / "contact.json", code=64, cwd=place / "own")
    assert said.count("\n") == 1
    assert not list((place / "home" / "trap").iterdir())
