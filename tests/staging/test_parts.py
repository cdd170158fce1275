"""Objects that are uploaded in parts: what a server refuses now and then costs no more than a part."""

from threading import Lock
from xml.etree import ElementTree

import pytest

from bbflow.stores.parts import Upload

PART_BYTES = 4


class Server:
    """Keeps parts, and refuses each the first times that it comes."""

    def __init__(self, refusals):
        self._refusals, self._lock, self.parts, self.known, self.content = refusals, Lock(), {}, [], None

    def ask(self, method, query, content, headers):
        if query == {"uploads": ""}:
            return b"<Begun><UploadId>1</UploadId></Begun>", {}
        if method == "PUT":
            with self._lock:
                self.known.append(query["partNumber"])
                if self.known.count(query["partNumber"]) <= self._refusals:
                    raise OSError("the S3 server says 503: Slow Down")
                self.parts[query["partNumber"]] = content
                return b"", {"ETag": f'"{query["partNumber"]}"'}
        if method == "POST":
            numbers = [part.findtext("PartNumber") for part in ElementTree.fromstring(content)]
            self.content = b"".join(self.parts[number] for number in numbers)
            return b"<Whole><ETag>e</ETag></Whole>", {}
        self.parts = {}
        return b"", {}


def sent(upload, content):
    upload.write(content)
    upload.finish({})


def test_a_part_that_is_refused_for_now_is_sent_once_more_and_no_other():
    server, content = Server(2), b"all that is there"
    sent(Upload(server.ask, PART_BYTES, 2, waits_s=(0, 0)), content)
    assert server.content == content
    assert sorted(server.known) == sorted([*"12345"] * 3)


def test_a_part_that_is_refused_for_good_ends_the_upload():
    server = Server(3)
    upload = Upload(server.ask, PART_BYTES, 2, waits_s=(0, 0))
    with pytest.raises(OSError, match="503"):
        sent(upload, bytes(20 * PART_BYTES))
    upload.drop()
    assert (server.content, server.parts) == (None, {})
