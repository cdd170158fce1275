"""What queries name: URLs, and where their copies lie below the local storage prefix."""

import os
import re

from bbflow.stores.local_files import path_of
from bbflow.stores.urls import is_local

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.+)")
_ONLY_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/{1,2}$")


def url_of(query: str) -> str:
    """Return the one form by which a file is known: a local one by its absolute path, without a scheme."""
    return os.path.abspath(path_of(query)) if is_local(query) else query


def local_suffix(url: str) -> str:
    """Return where a copy lies below the local storage prefix: below its protocol."""
    if (found := _SCHEME.match(url)) is None:
        return f"file{url}"
    return f"{found[1].lower()}/{found[2].strip('/')}"


def parent_of(url: str) -> str | None:
    """Return the URL of the directory that a file is in; None if that can't be listed as a whole."""
    if url.startswith(("http://", "https://")):
        return None  # pages don't tell sizes and times
    parent = url.rstrip("/").rpartition("/")[0]
    return parent if is_local(url) or (_SCHEME.match(parent) and not parent.endswith("/")) else None


def refusal(query: str) -> str | None:
    """Return why a query is none; None if it is one. It may have wildcards."""
    if not query or _ONLY_SCHEME.match(query):
        return "it names no file: write a path, or a URL such as s3://bucket/key"
    scheme = _SCHEME.match(query)
    if scheme and any(part in (".", "..") for part in scheme[2].split("/")):
        return "a URL has no '.' or '..' between slashes: write the path that they stand for"
    if scheme and scheme[1].lower() in ("s3", "s3a") and "/" not in scheme[2].rstrip("/"):
        return "it names a bucket, not an object: write it like s3://bucket/key"
    return None
