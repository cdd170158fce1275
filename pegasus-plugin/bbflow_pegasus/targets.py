"""Where one file lies that Pegasus wants at a path of its own: beside it, in ``.bbflow``, while it is being copied.

::

    DIR/.bbflow/<name>.part    what has come so far
    DIR/.bbflow/<name>.json    what it, or the whole file, is a copy of
    DIR/<name>                 the whole file: renamed, so it never appears in part

Of a name that has no room for the ending, the first two have a digest.

The notes go when a job has all its files, so that one that is tried again copies only what it hasn't; Pegasus removes
the directory with the rest of a run's, whatever became of it.
"""

import contextlib
import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path

from bbflow.errors import ConfigError
from bbflow.staging.shelf import Note, read_note, write_note

FOLDER = ".bbflow"
_LONGEST = 250
"""Bytes of a name to which an ending is added; file systems have 255."""
_ATTEMPTS = 10
"""To write into the folder while other jobs end."""


class Target:
    """The place of one file; its URL doesn't matter, for it has no other.

    Parameters
    ----------
    path
        Where Pegasus wants it.
    source
        Where it comes from, if that is on this host: the copy gets its permissions.
    """

    def __init__(self, path: Path, source: Path | None = None) -> None:
        self._path, self._source = path, source
        self._folder = path.parent / FOLDER
        name = os.fsencode(path.name)
        self._name = path.name if len(name) <= _LONGEST else hashlib.sha256(name).hexdigest()

    @property
    def directory(self) -> Path:
        """Where the file lies."""
        return self._path.parent

    def path(self, _: str) -> Path:
        """Return where the file lies, or will lie."""
        return self._path

    def partial(self, _: str) -> Path:
        """Return where it lies while it is being copied."""
        return self._folder / f"{self._name}.part"

    def make_room(self) -> None:
        """Make the directories that it needs.

        Raises
        ------
        ConfigError
            If they can't be made.
        """
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            place = self._path.parent
            raise ConfigError(f"can't stage to {place}: {error.strerror}; is the burst buffer there?") from None

    def has(self, url: str) -> bool:
        """Whether anything is there of the file."""
        return self._path.exists() or self.partial(url).exists()

    def put(self, note: Note, content: bytes) -> Path:
        """Publish the file whole; one that came in one piece needs no note, for it is as soon copied again."""
        self._write(lambda: self.partial(note.url).write_bytes(content))
        return self.finish(note.url)

    def note(self, _: str) -> Note | None:
        """Return what the copy was noted to be."""
        return read_note(self._note)

    def write_note(self, note: Note) -> None:
        """Note what is going to be copied; as long as it is noted, no other job removes the folder."""
        self._write(lambda: write_note(self._note, note))

    def finish(self, url: str) -> Path:
        """Publish the whole file."""
        if self._source is not None:
            self.partial(url).chmod(stat.S_IMODE(self._source.stat().st_mode) & 0o777)
        self.partial(url).replace(self._path)
        return self._path

    def forget(self) -> None:
        """Remove the note: the job is done."""
        self._note.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # others have notes in it
            self._folder.rmdir()

    def _write(self, write: Callable[[], object]) -> None:
        """Write into the folder, which another job may remove at its end."""
        for _ in range(_ATTEMPTS):
            self.make_room()
            with contextlib.suppress(FileNotFoundError):
                write()
                return
        write()

    @property
    def _note(self) -> Path:
        return self._folder / f"{self._name}.json"
