"""What in a directory is ours, by a mark that we leave there; nothing else is ever removed.

The mark is a file ``.bbflow``: its first line names the directory by its inode, each other line is a pattern of paths
in it. What matches a pattern is ours, since nothing there did when the line was written. In patterns ``*`` stands for
any part of one name, ``**`` for any number of directories, and at the end for all that a directory holds.
"""

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from fnmatch import fnmatchcase
from pathlib import Path

from bbflow.errors import ConfigError, naming
from bbflow.host.locks import locked_alone

MARK = ".bbflow"
NO_MARK = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENXIO}
"""How the system refuses to open what is none of ours, or not there."""
TRIES = 100
"""How often a directory is cleared into which somebody still writes."""
Pattern = tuple[str, ...]
_MADE, _SHARED = "bbflow made this directory, inode ", "bbflow put these files into the directory with inode "


def make(directory: Path, *patterns: str) -> None:
    """Make a directory for oneself, or continue with one that was made so.

    Parameters
    ----------
    directory
        Gets mode 0700.
    patterns
        What will be put there.

    Raises
    ------
    ConfigError
        If it is there with files in it and no mark, belongs to another user, or all may write into it.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_own(directory)
    if not is_marked(directory) and not _is_begun(directory):
        raise ConfigError(f"{directory} isn't empty, and bbflow didn't make it: move it, or give another directory")
    new = _new(directory, patterns)
    taken = (path for path in _found(directory, _split(new)) if not _is_directory(path))
    _note(directory, new, _MADE, next(taken, None))


def check_own(directory: Path) -> None:
    """Refuse a directory that others have made, to lead or read what is written there.

    Raises
    ------
    ConfigError
        If it belongs to another user, or all may write into it.
    """
    # a link of someone else's may lead to a directory of our own now, and to another one later
    if directory.lstat().st_uid not in (os.geteuid(), 0) or directory.stat().st_uid != os.geteuid():
        raise ConfigError(f"{directory} belongs to another user: give another directory")
    if directory.stat().st_mode & stat.S_IWOTH:
        raise ConfigError(f"{directory} can be written by all users: chmod o-w, or give another directory")


def claim(directory: Path, *patterns: str) -> None:
    """Note what will be put into a directory that may hold other files too, and is never removed itself.

    Raises
    ------
    ConfigError
        If something of this name is there and isn't noted. Nothing is noted then.
    """
    directory.mkdir(parents=True, exist_ok=True)
    new = _new(directory, patterns)
    _note(directory, new, _SHARED, next(_in_the_way(directory, _split(new)), None))


def is_marked(directory: Path) -> bool:
    """Whether something in a directory may be ours."""
    return _header(directory) is not None


def is_made(directory: Path) -> bool:
    """Whether we made a directory. A user's copy of one doesn't count, although it has the mark too."""
    try:
        return _header(directory) == f"{_MADE}{directory.stat().st_ino}"
    except OSError:
        return False


def is_ours(directory: Path, path: Path) -> bool:
    """Whether a path in a directory is noted there."""
    parts = path.relative_to(directory).parts
    return parts == (MARK,) or any(_matches(parts, pattern) for pattern in _split(_patterns(directory)))


def belongings(directory: Path) -> Iterator[Path]:
    """Iterate over the files in a directory that are ours; without a mark there are none."""
    return (path for path in _found(directory, _split(_patterns(directory))) if not _is_directory(path))


def foreign(directory: Path) -> Iterator[Path]:
    """Iterate over what isn't ours in a directory that we made, or in those that we made in a shared one."""
    yield from _foreign(directory, _split(_patterns(directory)))


def clear(directory: Path, *patterns: str) -> None:
    """Remove what is ours in a directory, and nothing without a mark; the mark stays.

    Parameters
    ----------
    directory
        Which.
    patterns
        Which of the noted ones; by default all.
    """
    known = _patterns(directory)
    for path in _found(directory, _split([pattern for pattern in known if not patterns or pattern in patterns])):
        with suppress(OSError):  # a directory that isn't empty, or someone was faster
            path.rmdir() if _is_directory(path) else path.unlink()


def remove(directory: Path) -> None:
    """Remove a directory that we made, but for what others have put into it; without a mark nothing is removed."""
    if not is_made(directory):
        return
    for _ in range(TRIES):
        clear(directory)
        # Whoever still writes there may have added something meanwhile; once its directory is gone, no one can.
        is_clear = all(path.name == MARK for path in _entries(directory))
        if is_clear or (any(foreign(directory)) and not any(belongings(directory))):
            break
    with suppress(OSError):  # someone was faster
        if [path.name for path in directory.iterdir()] == [MARK]:
            (directory / MARK).unlink()
            directory.rmdir()


def remove_begun(directory: Path) -> None:
    """Remove a directory for whose mark whoever made it had no time: one that is empty but for the mark's file."""
    with suppress(OSError):
        if _is_begun(directory):
            (directory / MARK).unlink(missing_ok=True)
            directory.rmdir()


def locked(directory: Path, refusal: str) -> AbstractContextManager[None]:
    """Be the one process that works in a marked directory, for as long as a ``with`` lasts.

    Parameters
    ----------
    directory
        That; where its file system has no locks, none is refused.
    refusal
        What is said if another process does.

    Raises
    ------
    ConfigError
        If another process does.
    """
    return locked_alone(directory / MARK, refusal, create=False)


def _new(directory: Path, patterns: Sequence[str]) -> list[str]:
    known = _patterns(directory)
    return [pattern for pattern in dict.fromkeys(patterns) if pattern not in known]


def _note(directory: Path, new: Sequence[str], header: str, taken: Path | None) -> None:
    if taken is not None:
        raise ConfigError(f"{taken} is in the way, and bbflow didn't make it: move it, or give another directory")
    first = [] if is_marked(directory) else [f"{header}{directory.stat().st_ino}"]
    if first and _is_in_the_way(directory / MARK):
        raise ConfigError(f"{directory / MARK} isn't a mark of this user's: move it, or give another directory")
    if first or new:
        # Before anything is made: a crash leaves names of what isn't there, never files that no mark names.
        path = str(directory / MARK)
        with naming(path), open(path, "a", opener=_unlinked) as file:
            file.write("".join(f"{line}\n" for line in (*first, *new)))


def _is_begun(directory: Path) -> bool:
    """Whether a directory is empty, but for the file of a mark before its first line."""
    return all(path.name == MARK and not path.lstat().st_size for path in directory.iterdir())


def _is_in_the_way(mark: Path) -> bool:
    try:
        found = mark.lstat()
    except FileNotFoundError:
        return False
    is_own = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()
    return not is_own and not stat.S_ISLNK(found.st_mode)  # which isn't opened


def _unlinked(path: str, flags: int) -> int:
    """Open a file, but none that a link names, and no pipe: who shares a directory may have put one there."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)


def _lines(directory: Path) -> list[str]:
    """Read a mark, if it is one; where all may write, another user's would say what of ours is to be removed.

    Raises
    ------
    OSError
        If the file system fails: that there is no mark would be taken for the word that nothing is ours.
    """
    try:
        with open(directory / MARK, opener=_unlinked) as file:
            found, above = os.fstat(file.fileno()), directory.stat()
            is_known = found.st_uid in (os.geteuid(), 0, above.st_uid) or not above.st_mode & stat.S_IWOTH
            if not (stat.S_ISREG(found.st_mode) and is_known):
                return []
            with naming(file.name):
                lines = file.read().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno not in NO_MARK:
            raise
        return []
    return lines if lines and lines[0].startswith((_MADE, _SHARED)) else []


def _header(directory: Path) -> str | None:
    return next(iter(_lines(directory)), None)


def _patterns(directory: Path) -> list[str]:
    return _lines(directory)[1:]


def _split(patterns: Sequence[str]) -> list[Pattern]:
    return [tuple(pattern.split("/")) for pattern in patterns]


def _matches(parts: Sequence[str], pattern: Sequence[str], *, begin: bool = False) -> bool:
    """Whether a path matches a pattern, or (`begin`) is a directory that may hold something that does."""
    if not pattern or not parts:
        return not parts and (begin or not pattern)
    if pattern[0] == "**":
        return len(pattern) == 1 or any(
            _matches(parts[at:], pattern[1:], begin=begin) for at in range(len(parts) + begin)
        )
    return fnmatchcase(parts[0], pattern[0]) and _matches(parts[1:], pattern[1:], begin=begin)


def _in_the_way(directory: Path, new: Sequence[Pattern]) -> Iterator[Path]:
    """Iterate over what has the name of something new, or of its outermost directory, and isn't ours."""
    known = _split(_patterns(directory))
    for path in _entries(directory):
        is_known = any(_matches((path.name,), pattern, begin=True) for pattern in known)
        if not is_known and any(_matches((path.name,), pattern, begin=True) for pattern in new):
            yield path
    for path in (directory.joinpath(*pattern) for pattern in new):
        if os.path.lexists(path) and not is_ours(directory, path):
            yield path


def _found(directory: Path, patterns: Sequence[Pattern], above: tuple[str, ...] = ()) -> Iterator[Path]:
    """Iterate over what matches, what is in a directory before itself; those that may hold it are given too."""
    for path in _entries(directory):
        parts = (*above, path.name)
        if parts == (MARK,):
            continue
        if _is_directory(path) and any(_matches(parts, pattern, begin=True) for pattern in patterns):
            yield from _found(path, patterns, parts)
            yield path
        elif not _is_directory(path) and any(_matches(parts, pattern) for pattern in patterns):
            yield path


def _foreign(directory: Path, patterns: Sequence[Pattern], above: tuple[str, ...] = ()) -> Iterator[Path]:
    for path in _entries(directory):
        parts = (*above, path.name)
        if _is_directory(path) and any(_matches(parts, pattern, begin=True) for pattern in patterns):
            yield from _foreign(path, patterns, parts)
        elif not any(_matches(parts, pattern) for pattern in ((MARK,), *patterns)) and (above or is_made(directory)):
            yield path


def _is_directory(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _entries(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except OSError:
        return []  # it is gone, or not ours to read
