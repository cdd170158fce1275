"""HTTP through the session that fsspec's file system has: what a file is like, its parts, and what a page lists."""

import re
from collections.abc import Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Any

from bbflow.stores.facts import TIMEOUT_S, outdated
from bbflow.stores.pages import listed_names

_PLACE = re.compile(r"bytes (?:(\d+)-\d+|\*)/(\d+|\*)")


class Web:
    """Asks servers about files and for parts of them, and remembers which files come whole only.

    One byte is asked for, which tells whether parts can be had too, and which servers answer that know no HEAD, and
    where a URL is signed for GET only. A file that comes whole then is asked about by HEAD, if its server knows that.
    A server may give parts of some files only, or none while it is busy: neither is remembered of the others. Safe to
    use from any thread, since each change is one of a set.
    """

    def __init__(self) -> None:
        self._whole: set[str] = set()
        self._doubted: set[str] = set()
        """Files of which something else than a part that was asked for has come once."""

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
        session, place = await system.set_session(), system.encode_url(url)
        if url not in self._whole:
            async with session.get(place, **_asking(system, Range="bytes=0-0")) as reply:
                part = _PLACE.match(reply.headers.get("Content-Range", ""))
                # An empty file has no first byte.
                if part is not None and part[2] != "*" and reply.status in (206, 416):
                    return told_by(reply) | {"size": int(part[2]), "ranges": True}
                system._raise_not_found_for_status(reply, url)
                reply.close()  # else the rest, which is on its way, would be waited for
            self._whole.add(url)
            # What is as long as a part says nothing of the file.
            if reply.status != 206 and (told := told_by(reply))["size"] is not None:
                return told
        async with session.head(place, **_asking(system), allow_redirects=True) as reply:
            if reply.ok and (told := told_by(reply))["size"] is not None:
                return told
        async with session.get(place, **_asking(system)) as reply:
            system._raise_not_found_for_status(reply, url)
            reply.close()
            return told_by(reply)

    async def read(self, system: Any, url: str, start: int, length_bytes: int) -> tuple[dict[str, Any], bytes]:
        """Read a part of a file; it may come out shorter.

        Returns
        -------
        dict, bytes
            What this reply tells of the file, which may not be what an earlier one told; and the bytes.

        Raises
        ------
        ChangedSourceError
            If the file has become shorter.
        OSError
            If the server sends anything else than this part: after the second time in a row, the file counts as one
            that comes whole only.
        FileNotFoundError, aiohttp.ClientError
            As `ask`.
        """
        session, place = await system.set_session(), system.encode_url(url)
        wanted = _asking(system, Range=f"bytes={start}-{start + length_bytes - 1}")
        async with session.get(place, **wanted) as reply:
            part = _PLACE.match(reply.headers.get("Content-Range", ""))
            if reply.status == 206 and part is not None and part[1] == str(start):
                self._doubted.discard(url)
                return told_by(reply), await reply.read()
            if reply.status == 416:
                raise outdated(url)
            system._raise_not_found_for_status(reply, url)
            reply.close()
        (self._whole if url in self._doubted else self._doubted).add(url)
        raise OSError(f"the server doesn't give the part from byte {start}, though it gave others")


def patient(options: Mapping[str, Any], timeout_s: float = TIMEOUT_S) -> dict[str, Any]:
    """Return options of fsspec's file system with which a reply may last as long as something comes of it.

    aiohttp's own limit is five minutes for all of a reply, in which a large file doesn't come without ranges.
    """
    import aiohttp

    silence = aiohttp.ClientTimeout(total=None, sock_connect=timeout_s, sock_read=timeout_s)
    return {**options, "client_kwargs": {"timeout": silence, **options.get("client_kwargs", {})}}


async def children(system: Any, url: str) -> tuple[str, list[str], list[str]]:
    """List a directory, if its server shows it as a page.

    Returns
    -------
    str, list of str, list of str
        Where it really is; names of its files and of its directories, decoded.

    Raises
    ------
    FileNotFoundError, aiohttp.ClientError
        As `Web.ask`.
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


def told_by(reply: Any) -> dict[str, Any]:
    """Return what a reply with all of a file tells of it, as fsspec would; of a part, its size is the part's."""
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
