"""Names that come, change and go: what must hold, and what is so then. Nothing is changed here."""

import errno

from msgspec.structs import replace

from bbflow.files.inodes import DIRECTORY, FILE, Inode
from bbflow.files.master.image import Image, MissingEntry
from bbflow.files.master.permissions import SEARCH, SETGID, WRITE, Credentials, check_access, check_removal
from bbflow.files.names import check_new_name

Place = tuple[Inode, str]
"""A directory, and a name in it."""


def made(
    image: Image, directory: Inode, name: str, kind: str, mode: int, who: Credentials, now_ns: int, storage: str
) -> Inode:  # fmt: skip
    """Return a new entry of a directory.

    Parameters
    ----------
    image
        The namespace.
    directory, name
        Where it is to be.
    kind, mode
        What it is, and who may use it.
    who
        For whom.
    now_ns
        The time.
    storage
        URL of the shared storage, whose objects could have all names; empty for none.

    Raises
    ------
    OSError
        EACCES, EEXIST, EILSEQ, ENOENT where the directory itself was removed.
    """
    check_access(directory, who, WRITE | SEARCH)
    check_new_name(name, storage)
    if name in image.entries(directory.ino):
        raise FileExistsError(errno.EEXIST, f"there is a {name!r} already")
    if not directory.parent:
        raise FileNotFoundError(errno.ENOENT, "the directory was removed")
    gid = who.gid
    # As Linux does: what is made there gets the directory's group, and directories hand that on.
    if directory.mode & SETGID:
        gid, mode = directory.gid, mode | (SETGID if kind == DIRECTORY else 0)
    return Inode(
        image.next_ino, directory.ino, name, kind, mode & 0o7777, who.uid, gid, now_ns, now_ns, now_ns,
        expected=kind == FILE,
    )  # fmt: skip


def touched(directory: Inode, now_ns: int) -> Inode:
    """Return a directory whose names have changed."""
    return replace(directory, mtime_ns=now_ns, ctime_ns=now_ns)


def removed(image: Image, directory: Inode, name: str, who: Credentials, *, directories: bool) -> Inode:
    """Return an entry whose name is to go.

    Raises
    ------
    OSError
        As `unlink`, or as `rmdir` with `directories`.
    """
    inode = image.child(directory.ino, name)
    if inode is None:
        raise MissingEntry(directory, name)
    check_removal(directory, inode, who)
    if directories:
        _check_empty(image, inode)
    elif inode.kind == DIRECTORY:
        raise IsADirectoryError(errno.EISDIR, f"{name!r} is a directory")
    return inode


def renamed(
    image: Image, old: Place, new: Place, who: Credentials, flags: str, now_ns: int, storage: str
) -> tuple[Inode, Inode | None]:  # fmt: skip
    """Return an inode under another name, and what has that now.

    Parameters
    ----------
    image
        The namespace.
    old, new
        Directory and name, before and after.
    who
        For whom.
    flags
        ``""``, ``"noreplace"`` or ``"exchange"``.
    now_ns
        The time.
    storage
        As `made`.

    Returns
    -------
    Inode, Inode or None
        What is renamed, as it is then. With ``"exchange"``, what has the old name then, as it is then; else what loses
        its name by it, as it is. Two names of one inode are left as they are: that is the first one then, unchanged.

    Raises
    ------
    OSError
        As `renameat2`; EILSEQ.
    """
    check_new_name(new[1], storage)
    moved, other = image.child(old[0].ino, old[1]), image.child(new[0].ino, new[1])
    if moved is None:
        raise MissingEntry(*old)
    check_removal(old[0], moved, who)
    if other is not None:
        check_removal(new[0], other, who)
    check_access(new[0], who, WRITE | SEARCH)
    if not new[0].parent:
        raise FileNotFoundError(errno.ENOENT, "the directory was removed")
    if flags == "exchange" and other is None:
        raise MissingEntry(*new)
    if flags == "noreplace" and other is not None:
        raise FileExistsError(errno.EEXIST, f"there is a {new[1]!r} already")
    _check_not_below(image, moved, new[0])
    if flags == "exchange" and other is not None:
        _check_not_below(image, other, old[0])
    if other is not None and moved.ino == other.ino:
        return moved, None
    if other is not None and flags != "exchange":
        _check_replaceable(image, moved, other, old[0])
    elif other is not None:
        other = replace(other, parent=old[0].ino, name=old[1], ctime_ns=now_ns)
    return replace(moved, parent=new[0].ino, name=new[1], ctime_ns=now_ns), other


def _check_empty(image: Image, inode: Inode) -> None:
    if inode.kind != DIRECTORY:
        raise NotADirectoryError(errno.ENOTDIR, f"{inode.name!r} isn't a directory")
    if image.entries(inode.ino):
        raise OSError(errno.ENOTEMPTY, f"{inode.name!r} isn't empty")
    if inode.master:
        raise OSError(errno.EBUSY, f"{inode.name!r} is another master's")


def _check_replaceable(image: Image, moved: Inode, other: Inode, directory: Inode) -> None:
    if moved.kind == DIRECTORY:
        _check_empty(image, other)
    elif other.kind == DIRECTORY and _is_above(image, other, directory):
        raise OSError(errno.ENOTEMPTY, f"{moved.name!r} is in it")  # what Linux says, whatever is moved
    elif other.kind == DIRECTORY:
        raise IsADirectoryError(errno.EISDIR, f"{other.name!r} is a directory")


def _check_not_below(image: Image, moved: Inode, directory: Inode) -> None:
    if moved.ino == image.root_ino or moved.master:
        raise OSError(errno.EBUSY, "a root can't be renamed")
    if moved.kind == DIRECTORY and _is_above(image, moved, directory):
        raise OSError(errno.EINVAL, f"{moved.name!r} can't go below itself")


def _is_above(image: Image, inode: Inode, directory: Inode) -> bool:
    while directory.ino not in (inode.ino, image.root_ino):
        directory = image.inodes[directory.parent]
    return directory.ino == inode.ino
