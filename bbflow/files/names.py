"""Names and paths of the namespace: what a name may be, so that no path leaves its place."""

import errno
import re
import time
from pathlib import PurePosixPath

MAX_NAME_BYTES = 255
"""As in local file systems: a mount shows these names to the kernel."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
CONFLICT = ".bbflow-conflict-"
"""Marks what is kept beside what someone else has written in the shared storage."""
STREAMS_URL = "bbflow-streams:"
"""Begins the URL of a contact file's streams as a shared storage."""


def check_name(name: str) -> str:
    """Return a name of one directory entry back, if it is one.

    Raises
    ------
    OSError
        EINVAL, EILSEQ or ENAMETOOLONG.
    """
    if not name or "/" in name or "\0" in name or name in (".", ".."):
        raise OSError(errno.EINVAL, f"{name!r} isn't a name for a file")
    try:
        size_bytes = len(name.encode())
    except UnicodeEncodeError:
        raise OSError(errno.EILSEQ, f"{name!r} isn't UTF-8, so no object could have this name") from None
    if size_bytes > MAX_NAME_BYTES:
        raise OSError(errno.ENAMETOOLONG, f"a name of {size_bytes} bytes: {MAX_NAME_BYTES} are the most")
    return name


def check_new_name(name: str, storage: str) -> str:
    """Return the name of a new entry back, if an object of the storage could have it.

    Raises
    ------
    OSError
        EILSEQ.
    """
    if storage.startswith(("s3://", "s3a://")) and _CONTROL.search(name):
        raise OSError(errno.EILSEQ, f"{name!r} has a control character: no object in {storage} could have this name")
    return name


def split_path(path: str) -> list[str]:
    """Return the names of a path from the root, or from a directory; ``""`` and ``"/"`` have none.

    Raises
    ------
    OSError
        As `check_name`.
    """
    return [check_name(name) for name in path.split("/") if name]


def is_within(path: str, directory: str) -> bool:
    """Whether a path is a directory or below it, both from the root."""
    return PurePosixPath(path).is_relative_to(directory)


def conflict_name(name: str, at_s: float) -> str:
    """Return the name under which a file is kept beside the one that has its name in the shared storage."""
    mark = time.strftime(f"{CONFLICT}%Y%m%dT%H%M%SZ", time.gmtime(at_s))
    return f"{name.encode()[: MAX_NAME_BYTES - len(mark)].decode(errors='ignore')}{mark}"
