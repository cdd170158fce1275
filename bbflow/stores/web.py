"""HTTP through the session that fsspec's file system has: what a file is like, and which files a page lists."""

import re
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Any

from bbflow.stores.pages import listed_names
from bbflow.stores.urls import server_of

_PLACE = re.compile(r"bytes (?:\d+-\d+|\*)/(\d+)")


class WebFacts:
    """Asks servers about files, and remembers how each is to be asked.

    One byte is asked for, which tells whether parts can be had too, and which servers answer that know no HEAD, and
    where a URL is signed for GET only. A server that would send all of the file then is asked by HEAD, if it knows
    that. Safe to use from any thread, since what is remembered is only added to.
    """

    def __init__(self) -> None:
        self._without_ranges: set[str] = set()
        self._without_head: set[str] = set()

    async def ask(self, system: Any, url: str) -> dict[str, Any]:
        """Ask about a file.

        Parameters
        ----------
        system
            fsspec's.
        url
            The file.

        Returns
        -------
        dict
            As fsspec tells of a file; ``ranges`` is whether the server gives parts of it.

        Raises
        ------
        FileNotFoundError
            If it isn't there.
        aiohttp.ClientError
            If the server refuses, or doesn't answer.
        """
        session, place, server = await system.set_session(), system.encode_url(url), server_of(url)
        if server in self._without_ranges - self._without_head:
            async with session.head(place, **_asking(system), allow_redirects=True) as reply:
                if reply.ok and (told := _told(reply))["size"] is not None:
                    return told
                self._without_head.add(server)
        async with session.get(place, **_asking(system, Range="bytes=0-0")) as reply:
            part = _PLACE.match(reply.headers.get("Content-Range", ""))
            if part is not None and reply.status in (206, 416):  # an empty file has no first byte
                return _told(reply) | {"size": int(part[1]), "ranges": True}
            system._raise_not_found_for_status(reply, url)
            reply.close()  # else the rest, which is on its way, would be waited for
            self._without_ranges.add(server)
            return _told(reply)


async def children(system: Any, url: str) -> tuple[str, list[str], list[str]]:
    """List a directory, if its server shows it as a page.

    Returns
    -------
    str, list of str, list of str
        Where it really is; names of its files and of its directories, decoded.

    Raises
    ------
    FileNotFoundError, aiohttp.ClientError
        As `WebFacts.ask`.
    """
    session = await system.set_session()
    async with session.get(system.encode_url(url), **system.kwargs) as reply:
        system._raise_not_found_for_status(reply, url)
        if "html" not in reply.headers.get("Content-Type", "html").lower():
            reply.close()
            return url, [], []
        page, where = await reply.read(), str(reply.url)
        return where, *listed_names(_text(page, reply.charset), where)


def _asking(system: Any, **headers: str) -> dict[str, Any]:
    """Return a request's options: unpacked, so that sizes are those of the file and not of what is on the way."""
    options = dict(system.kwargs)
    return options | {"headers": {**options.get("headers", {}), "Accept-Encoding": "identity", **headers}}


def _told(reply: Any) -> dict[str, Any]:
    length = None if "Content-Encoding" in reply.headers else reply.headers.get("Content-Length")
    size = None if length is None else int(length)
    told = {"type": "file", "size": size, "ETag": reply.headers.get("ETag"), "ranges": False}
    with suppress(ValueError):
        told["changed"] = parsedate_to_datetime(reply.headers.get("Last-Modified", ""))
    return told


def _text(page: bytes, charset: str | None) -> str:
    try:
        return page.decode(charset or "utf-8", errors="surrogateescape")
    except LookupError:
        return page.decode(errors="surrogateescape")
