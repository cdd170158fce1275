"""Every error that bbflow raises on purpose, grouped by what a caller would do about it."""

import difflib
import errno
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class BbflowError(Exception):
    """Something failed in a way that its message explains in full; no traceback is needed."""


class ConfigError(BbflowError):
    """The configuration or a command's arguments are wrong: change them."""


class CapacityError(BbflowError):
    """The burst buffer is too small for what it must hold: give it more."""


class StreamError(BbflowError):
    """A stream never opened, was aborted, or is not in the state a request needs."""


class SpillError(StreamError):
    """Spilled blocks were removed, cut or changed: an analysis that is started again continues without their step."""


class StoreError(BbflowError):
    """A file of a store was cut off: an analysis that is started again continues without what was in it."""


class SourceError(BbflowError):
    """A file to be staged is missing, forbidden, damaged or changed at its source."""


class MissingSourceError(SourceError):
    """A file to be staged isn't there."""


class DirectorySourceError(SourceError):
    """A directory is where a file was to be staged."""


class ChangedSourceError(SourceError):
    """A file isn't any more what it was when it was looked at."""


class ConflictError(SourceError):
    """Another program has written a file that was to be written or removed."""


class TaskError(BbflowError):
    """A task's command can't be run, failed, or didn't make what it was to make."""


class NodeError(BbflowError):
    """A BB node can't be reached, or is gone."""


class ProtocolError(BbflowError):
    """The peer said something that the format does not allow."""


class DamagedError(ProtocolError):
    """Bytes arrived that are no frame: the network or the peer is broken, and it may come back."""


class OperatorError(BbflowError):
    """A user's operator failed, crashed or gave something wrong: the others continue without it."""


class MissingToolError(BbflowError):
    """A program or library that this machine lacks: install it."""


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Put the file's name to what the operating system refuses meanwhile: writing to an open file doesn't tell it.

    Raises
    ------
    OSError
        With the name.
    """
    try:
        yield
    except OSError as error:
        # NumPy tells of a full disk by a text alone.
        named = (error.errno, error.strerror, path) if error.errno is not None else (f"{path}: {error}",)
        raise OSError(*named) from None


def describe(error: Exception) -> str:
    """Return what an error says; if the operating system refused, on which file, and what to do where that is clear."""
    if not isinstance(error, OSError):
        return str(error)
    where = f"{error.filename}: " if error.filename else ""
    advice = {
        errno.ENOSPC: ": the file system is full; make room on it, or give another output",
        errno.EDQUOT: ": your quota is used up; make room, or give another output",
        errno.EEXIST: ": something else is there; move it, or give another name",
        errno.EFAULT: ": the file with the steps that were to be written can't be read",
        errno.EFBIG: ": raise the limit of files' sizes (ulimit -f)",
        errno.EMFILE: ": raise the limit of open files (ulimit -n)",
    }
    return f"{where}{error.strerror or error}{advice.get(error.errno or 0, '')}"


def describe_end(code: int) -> str:
    """Return how a process ended, such as ``was killed by SIGKILL``; a code below 0 is the signal."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


def nearest(unknown: object, valid: Iterable[str]) -> str:
    """Return the end of an 'unknown name' message: the nearest valid name, or all of them, if any.

    Parameters
    ----------
    unknown
        The name that was not found.
    valid
        The names that would have been.
    """
    names = sorted(valid)
    folded = {name.lower(): name for name in reversed(names)}
    close = difflib.get_close_matches(str(unknown).lower(), folded, n=1, cutoff=0.5)
    if close:
        return f"did you mean {folded[close[0]]!r}?"
    return f"valid are {', '.join(names)}" if names else "there are none"


def printable(text: str) -> str:
    """Return a foreign text as a terminal and a log may have it: what doesn't print is escaped, as in `repr`."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def one_line(text: str) -> str:
    """Return a foreign text as messages and files may have it: in one line, and Unicode."""
    return " ".join(text.split()).encode(errors="backslashreplace").decode()
