"""Control groups: a job's processes on a host, which none of them can leave, and which end together."""

import os
from contextlib import suppress
from pathlib import Path

from bbflow.errors import MissingToolError, NodeError
from bbflow.host.waiting import until

PARENT = "bbflow-slurm"
MOUNTS = Path("/proc/self/mounts")
_GONE_S = 20.0
_POLL_S = 0.05


class ControlGroup:
    """A group of the kernel's (cgroup v2, Linux 5.14), made by root.

    Parameters
    ----------
    name
        Its own, such as the job's number and the host's name.

    Raises
    ------
    MissingToolError
        If this host has no cgroup v2.
    """

    def __init__(self, name: str) -> None:
        self.path = _root() / PARENT / name
        """In the kernel's file system of groups."""

    def make(self) -> "ControlGroup":
        """Make the group, empty: what an earlier one of this name has left ends.

        Raises
        ------
        MissingToolError
            If this user can't, or the kernel can't end groups.
        """
        self.end()
        try:
            self.path.mkdir(mode=0o755, parents=True)
        except OSError as error:
            raise MissingToolError(f"{self.path} can't be made: {error.strerror}; {_NEEDED}") from None
        if not (self.path / "cgroup.kill").exists():
            self.path.rmdir()
            raise MissingToolError(f"this kernel can't end a group as a whole: {_NEEDED}")
        return self

    def join(self) -> None:
        """Put the calling process into it."""
        descriptor = os.open(self.path / "cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)
        os.write(descriptor, b"0")
        os.close(descriptor)

    def end(self) -> bool:
        """Kill all that belongs to it, and remove it; return whether anything did.

        Raises
        ------
        NodeError
            If something in it doesn't die.
        """
        if not self.path.exists():
            return False
        had = self._has_any()
        # All at once by the kernel: processes that fork faster than they are killed one by one can't get away.
        (self.path / "cgroup.kill").write_text("1")
        if not until(lambda: not self._has_any(), _GONE_S, _POLL_S):
            raise NodeError(f"processes in {self.path} don't end: look for a file system that doesn't answer")
        with suppress(FileNotFoundError):
            self.path.rmdir()
        return had

    def _has_any(self) -> bool:
        return "populated 1" in (self.path / "cgroup.events").read_text()


_NEEDED = "a stream's hosts need Linux 5.14 with cgroup v2 that root may write"


def _root() -> Path:
    """Return where cgroup v2 is mounted."""
    for line in MOUNTS.read_text().splitlines():
        _, place, kind = line.split()[:3]
        if kind == "cgroup2":
            return Path(place)
    raise MissingToolError(f"this host has no cgroup v2: {_NEEDED}")
