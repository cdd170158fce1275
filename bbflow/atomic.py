"""Files that appear whole or not at all: written beside their place, under a hidden name, and renamed.

Nothing is fsynced: what is promised holds when a process is killed, not after a loss of power.
"""

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bbflow.errors import naming

PRIVATE = 0o600
"""Permissions of a file that only its owner can read."""


def beside(path: Path) -> Path:
    """Return the name under which this thread writes a file, so that no two write under the same."""
    return path.with_name(f".{path.name}.{os.getpid()}-{threading.get_native_id()}.part")


def is_beside(name: str) -> bool:
    """Whether a file's name is one that `beside` gives, of whichever process."""
    return re.fullmatch(r"\..*\.\d+-\d+\.part", name) is not None


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield the name to write under; the file takes its place when the ``with`` ends well, else it goes."""
    temporary = beside(path)
    try:
        yield temporary
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_whole(path: Path, content: str | bytes, mode: int = 0o666) -> None:
    """Write a file.

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
    with naming(str(path)), replacing(path) as temporary:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        with open(descriptor, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
