"""Files that appear whole or not at all: written beside their place, under a hidden name, and renamed.

Nothing is fsynced: what is promised holds when a process is killed, not after a loss of power.
"""

import hashlib
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bbflow.errors import naming

_LONGEST = 200
"""Bytes of a name to which a dot, two numbers and ``.part`` are added; file systems have 255."""
PRIVATE = 0o600
"""Permissions of a file that only its owner can read."""


def beside(path: Path) -> Path:
    """Return the name under which this thread writes a file, so that no two write under the same."""
    return Path(_beside(str(path)))


def _beside(path: str) -> str:
    folder, name = os.path.split(path)
    if len(os.fsencode(name)) > _LONGEST:  # any name that a file may have must leave room for the rest of this one
        name = hashlib.sha256(os.fsencode(name)).hexdigest()
    return os.path.join(folder, f".{name}.{os.getpid()}-{threading.get_native_id()}.part")


def is_beside(name: str) -> bool:
    """Whether a file's name is one that `beside` gives, of whichever process."""
    return re.fullmatch(r"\..*\.\d+-\d+\.part", name) is not None


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield the name to write under; the file takes its place when the ``with`` ends well, else it goes.

    Raises
    ------
    OSError
        With the file's name, whatever of it couldn't be written.
    """
    with _replacing(str(path)) as temporary:
        yield Path(temporary)


@contextmanager
def _replacing(path: str) -> Iterator[str]:
    temporary = _beside(path)
    with naming(path):
        try:
            yield temporary
            os.replace(temporary, path)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(temporary)
            raise


def _made(path: str, mode: int) -> int:
    """Open a new file: what has its name, of a dead process or of someone who lays a link there, goes first."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        return os.open(path, flags, mode)
    except FileExistsError:
        os.unlink(path)
        return os.open(path, flags, mode)


def write_whole(path: Path | str, content: str | bytes | memoryview, mode: int = 0o666) -> None:
    """Write a file; as text and in `pathlib` it would take longer, and publications write thousands.

    Parameters
    ----------
    path
        What is there is replaced.
    content
        Text is encoded as UTF-8.
    mode
        Its permissions, less the process's mask.

    Raises
    ------
    OSError
        If it can't be written; what was there is there.
    """
    name, left = str(path), memoryview(content.encode() if isinstance(content, str) else content).cast("B")
    with _replacing(name) as temporary:
        descriptor = _made(temporary, mode)
        try:
            while left:
                left = left[os.write(descriptor, left) :]
        finally:
            os.close(descriptor)
