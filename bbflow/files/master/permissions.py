"""Who may do what with an inode: POSIX mode bits, decided without any I/O."""

import errno
from dataclasses import dataclass

from bbflow.files.inodes import DIRECTORY, Inode

READ, WRITE, SEARCH = 4, 2, 1
STICKY, SETUID, SETGID = 0o1000, 0o4000, 0o2000


@dataclass(frozen=True, slots=True)
class Credentials:
    """The user that a request is made for."""

    uid: int
    """User."""
    gid: int
    """Group."""
    groups: frozenset[int] = frozenset()
    """Further groups."""

    def is_in(self, gid: int) -> bool:
        """Whether the user is in a group."""
        return gid == self.gid or gid in self.groups


SYSTEM = Credentials(0, 0)
"""The user as which a master makes directories by itself."""


def check_access(inode: Inode, who: Credentials, want: int) -> None:
    """Refuse what the mode bits don't allow.

    Parameters
    ----------
    inode
        What is to be used.
    who
        By whom.
    want
        Sum of `READ`, `WRITE` and `SEARCH`.

    Raises
    ------
    PermissionError
        EACCES.
    """
    if who.uid == 0:
        return
    if who.uid == inode.uid:
        granted = inode.mode >> 6
    elif who.is_in(inode.gid):
        granted = inode.mode >> 3
    else:
        granted = inode.mode
    if want & ~granted:
        raise PermissionError(errno.EACCES, f"mode {inode.mode:04o} of {inode.name!r} doesn't allow it")


def check_removal(directory: Inode, inode: Inode, who: Credentials) -> None:
    """Refuse to take a name away from a sticky directory, unless it or the directory is the user's.

    Raises
    ------
    PermissionError
        EACCES or EPERM.
    """
    check_access(directory, who, WRITE | SEARCH)
    if directory.mode & STICKY and who.uid not in (0, directory.uid, inode.uid):
        raise PermissionError(errno.EPERM, f"{inode.name!r} is another user's, in a sticky directory")


def check_owner(inode: Inode, who: Credentials) -> None:
    """Refuse who is neither the owner nor root.

    Raises
    ------
    PermissionError
        EPERM.
    """
    if who.uid not in (0, inode.uid):
        raise PermissionError(errno.EPERM, f"{inode.name!r} is another user's")


def check_chown(inode: Inode, who: Credentials, owner: int, group: int) -> None:
    """Refuse to give a file away, or to a group that the owner isn't in.

    Raises
    ------
    PermissionError
        EPERM.
    """
    if who.uid == 0:
        return
    if who.uid != inode.uid or owner != inode.uid or not (group == inode.gid or who.is_in(group)):
        raise PermissionError(errno.EPERM, f"only root can give {inode.name!r} to another user or group")


def mode_after_chmod(inode: Inode, who: Credentials, mode: int) -> int:
    """Return the mode that is set: who isn't in the file's group can't set its set-group-ID bit."""
    if who.uid != 0 and inode.kind != DIRECTORY and not who.is_in(inode.gid):
        return mode & ~SETGID
    return mode


def mode_after_write(inode: Inode, who: Credentials) -> int:
    """Return the mode after a change of owner, or a write: the bits that give rights away go."""
    if who.uid == 0 or inode.kind == DIRECTORY:
        return inode.mode
    # As in Linux: without the group's right to execute, set-group-ID marks mandatory locking, and gives no right.
    cleared = SETUID | (SETGID if inode.mode & 0o010 else 0)
    return inode.mode & ~cleared
