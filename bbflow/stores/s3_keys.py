"""Lists of S3's keys as they are: obstore gives no list that has a key which isn't a path, such as ``a//b``."""

import urllib.request
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any
from urllib.parse import unquote_plus
from xml.etree import ElementTree

from bbflow.stores.facts import TIMEOUT_S


def list_keys(
    sign: Callable[[dict[str, str]], str], prefix: str, *, delimiter: str = "", after: str = ""
) -> Iterator[tuple[list[dict[str, Any]], list[str]]]:
    """Iterate over what is in a bucket, 1,000 keys a request (Amazon S3 API Reference, "ListObjectsV2").

    Parameters
    ----------
    sign
        Gives the URL of a query to the bucket.
    prefix
        What all keys begin with.
    delimiter
        Keys that have it behind the prefix are told by what is before it; empty for none.
    after
        Only keys that come after this one.

    Yields
    ------
    list of dict, list of str
        Objects, as obstore tells of them; and what is before the delimiter.
    """
    query = {"list-type": "2", "encoding-type": "url", "prefix": prefix, "delimiter": delimiter, "start-after": after}
    query = {key: value for key, value in query.items() if value}
    while True:
        with urllib.request.urlopen(sign(query), timeout=TIMEOUT_S) as reply:
            page = ElementTree.parse(reply).getroot()
        is_quoted = page.findtext("{*}EncodingType") == "url"
        objects = [_object(item, is_quoted) for item in page.iterfind("{*}Contents")]
        yield objects, [_text(item, "Prefix", is_quoted) for item in page.iterfind("{*}CommonPrefixes")]
        token = page.findtext("{*}NextContinuationToken")
        if not token:
            return
        query["continuation-token"] = token


def _object(item: ElementTree.Element, is_quoted: bool) -> dict[str, Any]:
    return {
        "path": _text(item, "Key", is_quoted),
        "size": int(_text(item, "Size")),
        "e_tag": _text(item, "ETag"),
        "version": None,
        "last_modified": datetime.fromisoformat(_text(item, "LastModified")),
    }


def _text(item: ElementTree.Element, name: str, is_quoted: bool = False) -> str:
    text = item.findtext(f"{{*}}{name}") or ""
    # Keys are encoded as in a form, in which a space is a plus.
    return unquote_plus(text) if is_quoted else text
