"""What is staged: files by their URL, and the tasks that use them."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

Location = Path | str
"""Where a task finds a file: a path, or the source's own URL where it is read directly."""


@dataclass(frozen=True, slots=True)
class File:
    """A file at its source."""

    url: str
    """As fsspec takes it: a path, ``file://``, ``s3://``, ``https://``, …"""
    size_bytes: int | None = None
    """None if it isn't known: the source is asked, or a task will make the file."""
    checksum: str | None = None
    """Such as ``md5:…`` or ``sha256:…`` in hexadecimal digits; None if only the source may tell one."""


@dataclass(frozen=True, slots=True)
class Task:
    """A task with all its files, which are admitted together."""

    key: str
    """Its name, unique among all tasks of a plan."""
    inputs: tuple[File, ...]
    """What it reads."""
    outputs: tuple[File, ...] = ()
    """What it makes on the BB; their sizes are reserved, as far as they are known."""

    @property
    def set_bytes(self) -> int:
        """Bytes of its file set, as far as sizes are known; a file that is named twice counts once."""
        return total_bytes((*self.inputs, *self.outputs))


def total_bytes(files: Iterable[File]) -> int:
    """Add the known sizes of distinct files, in bytes."""
    return sum({file.url: file.size_bytes or 0 for file in files}.values())
