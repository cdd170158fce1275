"""Renames that replace nothing, or swap two files: Linux' own, which Python doesn't have."""

import ctypes
import errno
import os

NOREPLACE, EXCHANGE = 1, 2
"""Flags of renameat2(2)."""
_AT_FDCWD = -100
_UNKNOWN = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)
_LIBC = ctypes.CDLL(None, use_errno=True)


def renamed(old: str, new: str, flag: int) -> bool:
    """Rename a file by `NOREPLACE`, or swap it with another by `EXCHANGE`; return whether its file system can do that.

    Raises
    ------
    OSError
        EEXIST if `NOREPLACE` would replace something; what rename(2) says.
    """
    if not hasattr(_LIBC, "renameat2"):
        return False
    if _LIBC.renameat2(_AT_FDCWD, os.fsencode(old), _AT_FDCWD, os.fsencode(new), flag) == 0:
        return True
    number = ctypes.get_errno()
    if number in _UNKNOWN:
        return False
    raise OSError(number, os.strerror(number), old, None, new)
