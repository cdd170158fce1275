"""Objects that are uploaded in parts, which the last request makes one under a condition: obstore has none for that."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from threading import BoundedSemaphore
from typing import Literal
from xml.etree import ElementTree

Method = Literal["DELETE", "GET", "POST", "PUT"]
Request = Callable[[Method, Mapping[str, str], bytes, Mapping[str, str]], tuple[bytes, Mapping[str, str]]]
"""Asks for something of the object: method, query, content and headers; gives the reply, and its headers."""


class Upload:
    """One object on its way (Amazon S3 API Reference, "CreateMultipartUpload" and what follows there).

    Parameters
    ----------
    request
        Asks the server.
    part_bytes
        Bytes of each part but the last.
    at_once
        Parts that are on their way, and held in memory, at most.
    waits_s
        How long a part waits that couldn't be sent, each time: given up at once, all others were sent for nothing.
    """

    def __init__(
        self, request: Request, part_bytes: int, at_once: int, waits_s: Sequence[float] = (0.1, 0.5, 2.5, 10.0)
    ) -> None:
        self._request, self._part_bytes, self._waits_s = request, part_bytes, waits_s
        begun, _ = request("POST", {"uploads": ""}, b"", {})
        self._upload = {"uploadId": _told(begun, "UploadId")}
        self._sending = ThreadPoolExecutor(at_once)
        self._room = BoundedSemaphore(at_once)
        self._parts: list[Future[str]] = []
        self._failed: Exception | None = None
        self._rest = bytearray()

    def write(self, content: bytes | bytearray | memoryview) -> None:
        """Add bytes; waits while too many parts are on their way."""
        self._rest += content
        while len(self._rest) >= self._part_bytes:
            self._begin_part(bytes(self._rest[: self._part_bytes]))
            del self._rest[: self._part_bytes]

    def finish(self, condition: Mapping[str, str]) -> str:
        """Make the parts one object, if the headers that are the condition allow it; return its ETag.

        Raises
        ------
        ConflictError
            If it doesn't allow that; a `MissingSourceError` if it names an object that isn't there any more.
        OSError
            If the server can't do it now.
        """
        if self._rest or not self._parts:
            self._begin_part(bytes(self._rest))
        whole = ElementTree.Element("CompleteMultipartUpload")
        for number, sent in enumerate(self._parts, 1):
            part = ElementTree.SubElement(whole, "Part")
            ElementTree.SubElement(part, "PartNumber").text = str(number)
            ElementTree.SubElement(part, "ETag").text = sent.result()
        self._sending.shutdown()
        reply, _ = self._request("POST", self._upload, ElementTree.tostring(whole), condition)
        # What fails after the server has begun to answer comes with status 200.
        if not (version := _told(reply, "ETag")):
            raise OSError(f"the S3 server made no object of its parts: {_told(reply, 'Code') or reply[:200]!r}")
        return version

    def drop(self) -> None:
        """Leave nothing of it in the bucket."""
        # Parts on their way are waited for: one that arrives after the upload was dropped would stay, and be billed.
        self._sending.shutdown(cancel_futures=True)
        with suppress(Exception):  # what it is dropped for is told
            self._request("DELETE", self._upload, b"", {})

    def _begin_part(self, content: bytes) -> None:
        self._room.acquire()
        if self._failed is not None:
            raise self._failed
        number = len(self._parts) + 1
        self._parts.append(self._sending.submit(self._send, number, content))

    def _send(self, number: int, content: bytes) -> str:
        try:
            for wait_s in self._waits_s:
                with suppress(OSError):
                    return self._put(number, content)
                # A server that refuses one of thousands of parts for a moment must not cost the whole upload.
                time.sleep(wait_s)
            return self._put(number, content)
        except Exception as error:
            self._failed = error
            raise
        finally:
            self._room.release()

    def _put(self, number: int, content: bytes) -> str:
        _, headers = self._request("PUT", {"partNumber": str(number), **self._upload}, content, {})
        return headers["ETag"]


def _told(reply: bytes, name: str) -> str:
    with suppress(ElementTree.ParseError):
        return ElementTree.fromstring(reply).findtext(f"{{*}}{name}") or ""
    return ""
