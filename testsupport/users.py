"""Two users of this host who aren't root, and places that both can reach."""

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

NAMES = ("nobody", "games")
"""Accounts that hosts have, and whose files nobody uses."""


_HOME = Path.home()
_IS_CLOSED = sys.base_prefix.startswith(f"{_HOME}/") and not _HOME.stat().st_mode & 0o001
REACHED = "true"
"""What a shell does in a mount namespace of its own so that other users reach this Python in a home that is closed."""
if _IS_CLOSED:
    REACHED = (
        f"mount --bind {sys.base_prefix} /mnt && mount -t tmpfs -o mode=755 none {_HOME} && "
        f"mkdir -p {sys.base_prefix} && mount --bind /mnt {sys.base_prefix}"
    )


def reached(*words):
    """Return a command of root's in which other users reach this Python too."""
    words = [*map(str, words)]
    return ["unshare", "--mount", "sh", "-c", f'{REACHED} && exec "$@"', "sh", *words] if _IS_CLOSED else words


class User:
    """A user, and what it can do."""

    def __init__(self, name):
        found = pwd.getpwnam(name)
        self.name, self.uid, self.gid = name, found.pw_uid, found.pw_gid

    def words(self, *words):
        """Return the command that runs words as this user, with nothing of root's."""
        return reached("setpriv", f"--reuid={self.uid}", f"--regid={self.gid}", "--clear-groups", *words)

    def run(self, *words, code=0, **more):
        """Run a command as this user; return what it said."""
        done = subprocess.run(self.words(*words), capture_output=True, text=True, timeout=60, **more)
        assert code is None or done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def python(self, text, *words, **more):
        """Run a program in Python as this user; return what it said."""
        return self.run(sys.executable, "-c", text, *words, **more)

    def start(self, *words, **more):
        """Start a command as this user."""
        return subprocess.Popen(self.words(*words), **more)

    def own(self, path):
        """Make this user a path's owner."""
        os.chown(path, self.uid, self.gid, follow_symlinks=False)
        return path


@contextmanager
def two_users():
    """Return two users, or skip with a reason."""
    if os.geteuid() != 0:
        pytest.skip("only root can be two users")
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv is missing: apt install util-linux")
    try:
        users = [User(name) for name in NAMES]
    except KeyError as error:
        pytest.skip(f"this host has no such user: {error}")
    words = users[0].words(sys.executable, "-I", "-c", "import sys, bbflow; print(sys.base_prefix)")
    if subprocess.run(words, capture_output=True, text=True).stdout.strip() != sys.base_prefix:
        pytest.skip("other users can't reach this Python, or bbflow")
    yield users


@contextmanager
def open_place():
    """Make a directory that all users can enter, and that root alone writes; remove it afterwards."""
    with tempfile.TemporaryDirectory(prefix="bbplace-") as name:
        os.chmod(name, 0o755)
        yield Path(name)
