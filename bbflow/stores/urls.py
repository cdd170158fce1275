"""What URLs say: whose a file is, its name, and what a name in a directory is called."""

import re
from urllib.parse import quote, unquote

from bbflow.stores.local import path_below
from bbflow.stores.ranges import split_range

HTTP = ("http://", "https://")
"""In such URLs names are percent-encoded, ``?`` begins a query and ``#`` a fragment; in all others a name is itself."""
_NO_NAME = re.compile(r"[\x00-\x1f\x7f/]|^\.{0,2}$")
"""What a server may tell that is no name of a file."""


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
