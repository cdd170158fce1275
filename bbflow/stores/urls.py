"""What URLs say: whose a file is, its name, and what a name in a directory is called.

``bytes=0-1048576::/pfs/large.csv`` is the first MiB of a file. The part stands before the file, in the place of a
protocol, so that no name of a file ends by meaning one.
"""

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote

HTTP = ("http://", "https://")
"""In such URLs names are percent-encoded, ``?`` begins a query and ``#`` a fragment; in all others a name is itself."""
_ELSEWHERE = re.compile(r"(?!file:|local:)[a-z][a-z0-9+.-]*(://|::)|data:", re.IGNORECASE)
_NO_NAME = re.compile(r"[\x00-\x1f\x7f/]|^\.{0,2}$")
"""What a server may tell that isn't a name of a file."""
_RANGE = re.compile(r"bytes=(\d+)-(\d+)::(?=.)")


@dataclass(frozen=True, slots=True)
class Range:
    """Bytes of a file."""

    start: int
    """Of its first byte."""
    end: int
    """Before which it ends."""


def url_of_range(url: str, part: Range) -> str:
    """Name a part of a file."""
    return f"bytes={part.start}-{part.end}::{url}"


def split_range(url: str) -> tuple[str, Range | None]:
    """Return the file that a URL names, and which part of it; None for the whole."""
    found = _RANGE.match(url)
    return (url[found.end() :], Range(int(found[1]), int(found[2]))) if found else (url, None)


def server_of(url: str) -> str:
    """Return what a URL names up to its path: protocol and host, or bucket; for all local files the same."""
    protocol, mark, rest = split_range(url)[0].partition("://")
    return protocol + mark + rest.partition("/")[0] if mark else ""


def file_name(url: str) -> str:
    """Return the name of a file as it is on disk; ``file`` if its URL has none that could be."""
    whole = split_range(url)[0]
    name = whole.partition("?")[0] if whole.startswith(HTTP) else whole
    name = name.rstrip("/").rpartition("/")[2]
    if whole.startswith(HTTP) and is_name(decoded := decode(name)):
        return decoded
    return "file" if name in ("", ".", "..") else name


def is_name(text: str) -> bool:
    """Whether a file may have a name that a server has told."""
    return _NO_NAME.search(text) is None


def decode(name: str) -> str:
    """Undo percent-encoding; what isn't UTF-8 becomes what Python's paths have for such bytes."""
    return unquote(name, errors="surrogateescape")


def below(directory: str, name: str) -> str:
    """Return the URL of what has a name, or a path, in a directory; that is the working directory if it is empty."""
    return path_below(directory, quote(name, errors="surrogateescape") if directory.startswith(HTTP) else name)


def path_below(directory: str, name: str) -> str:
    """Return the path of what has a name in a directory; in the working directory if that is empty."""
    if not directory:
        return name if is_plain(name) else f"./{name}"
    return f"{directory.rstrip('/')}/{name}"


def is_local(url: str) -> bool:
    """Whether a URL names a file of this host's file systems, or a part of one."""
    return _ELSEWHERE.match(split_range(url)[0]) is None


def is_plain(path: str) -> bool:
    """Whether a relative path is no more than a path: it doesn't begin as what means something else does."""
    return is_local(path) and split_range(path)[1] is None and not path.startswith(("~", "file:", "local:"))
