"""Mounts as processes of their own, which a test kills, ends and starts again."""

import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from bbflow.mount.mounting import DEAD, PROGRAM, READY, is_mounted
from testsupport.waiting import until

BOUND_S = 120


def missing():
    """Return why nothing can be mounted here, or None."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "there is no /dev/fuse for this user"
    if os.geteuid() != 0 and shutil.which("fusermount3") is None:
        return "only root mounts without fusermount3: apt install fuse3"
    return None


class Mounts:
    """All mounts of a test end with it."""

    def __init__(self, directory):
        self._directory = directory
        self._running = {}

    def start(self, name, *words, contact, **options):
        """Mount a contact file's files, with options of `subprocess.Popen`; gives the directory."""
        where = self._directory / name
        with suppress(FileExistsError):  # a dead mount is there, though nobody can look at it
            where.mkdir()
        log = self._directory / f"{name}.log"
        with log.open("wb") as file:
            command = [str(PROGRAM), *words, "--contact", str(contact), str(where)]
            process = subprocess.Popen(command, stderr=file, **options)
        self._running[name] = process
        until(lambda: READY in log.read_text(), log.read_text, of=process)
        return where

    def kill(self, name):
        self._running[name].kill()
        self._running.pop(name).wait()

    def end(self, name):
        """End a mount as a user does; gives its exit code."""
        self.signal(name)
        return self.wait(name)

    def signal(self, name):
        self._running[name].send_signal(signal.SIGTERM)

    def read_bytes(self, name):
        """Return how many bytes the program of a mount has read, from wherever."""
        return psutil.Process(self.pid(name)).io_counters().read_chars

    def said(self, name):
        """Return what the program of a mount has written to its log."""
        return (self._directory / f"{name}.log").read_text()

    def pid(self, name):
        return self._running[name].pid

    def wait(self, name):
        return self._running.pop(name).wait(BOUND_S)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            for name in list(self._running):
                assert self.end(name) == 0
        finally:
            for process in self._running.values():
                process.kill()
            for where in self._directory.iterdir():
                if is_mounted(where):
                    unmount(where)


def unmount(where):
    subprocess.run(["umount", "--lazy", where], check=True)


def unmount_dead(own):
    """Unmount what runs of tests that were killed have left beside this one's directory: nobody could clear it away."""
    for each in psutil.disk_partitions(all=True):
        where = Path(each.mountpoint)
        is_left = where.is_relative_to(own.parent) and not where.is_relative_to(own)
        if each.fstype == "fuse.bbflow" and is_left and errno_of(os.stat, where) in DEAD:
            unmount(where)


def in_another_process(program, *words, **options):
    """Run a Python program; gives what it prints. As another user it skips if that one can't run this Python."""
    command = [sys.executable, "-c", program, *map(str, words)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=BOUND_S, **options)
    except PermissionError:
        pytest.skip(f"another user can't run {sys.executable}")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def errno_of(call, *arguments, **options):
    """Return the error number that a call fails with, or 0."""
    try:
        call(*arguments, **options)
    except OSError as error:
        return error.errno
    return 0


@contextmanager
def files_of_at_most(process, size_bytes):
    """Keep a process's files this short: it must ignore SIGXFSZ, as what this one starts does if it restores none."""
    process.rlimit(resource.RLIMIT_FSIZE, (size_bytes, resource.RLIM_INFINITY))
    try:
        yield
    finally:
        process.rlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def write_at(path: Path, content: bytes, offset: int) -> None:
    """Overwrite a part of a file."""
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(content)


def let_all_in(folder):
    """Make a test's folder reachable for other users, from the temporary directory on: rights are only added."""
    temporary = Path(tempfile.gettempdir())
    for each in (folder, *(parent for parent in folder.parents if temporary in parent.parents)):
        each.chmod(stat.S_IMODE(each.stat().st_mode) | 0o055)
