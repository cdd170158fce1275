"""Web servers that tell one thing and send another: what comes is right, or refused."""

import os
import re
import socket
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from fsspec.exceptions import FSTimeoutError

from bbflow.errors import SourceError
from bbflow.staging import File, Gate, Retry
from bbflow.staging.retry import persist
from bbflow.staging.transfers import Transfer
from bbflow.stores.facts import Facts
from bbflow.stores.objects import ObjectStore
from bbflow.stores.remote import RemoteFiles
from bbflow.stores.sources import Sources
from testsupport.waiting import until

QUICK = Retry(attempts=3, first_s=0.01)
RIGHT, OTHER = os.urandom(100_000), os.urandom(100_000)


class Reply:
    """An honest reply to a request for all of a file or a part of it; lies change it."""

    def __init__(self, number, method, wanted):
        self.number, self.method = number, method
        self.start, self.end = (int(wanted[1]), min(int(wanted[2]) + 1, len(RIGHT))) if wanted else (0, len(RIGHT))
        self.is_first_byte = wanted is not None and self.end == 1
        self.status, self.etag = 206 if wanted else 200, '"right"'
        self.content, self.place = RIGHT[self.start : self.end], f"bytes {self.start}-{self.end - 1}/{len(RIGHT)}"
        self.length = len(self.content)

    @property
    def is_part(self):
        return self.status == 206 and not self.is_first_byte


@contextmanager
def liar(lie):
    """Serve one file with a lie: a function that changes a `Reply`."""
    numbers = iter(range(1000))

    class Handler(BaseHTTPRequestHandler):
        protocol_version, disable_nagle_algorithm = "HTTP/1.1", True

        def do_GET(self):
            wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
            reply = Reply(next(numbers), self.command, wanted)
            lie(reply)
            self.send_response(reply.status)
            told = {
                "ETag": reply.etag,
                "Content-Length": reply.length,
                "Last-Modified": "Wed, 21 Oct 2015 07:28:00 GMT",
            }
            for key, value in {**told, "Content-Range": reply.place if reply.status == 206 else None}.items():
                if value is not None:
                    self.send_header(key, str(value))
            self.end_headers()
            if reply.method == "GET":
                self.wfile.write(reply.content)
            if reply.length != len(reply.content):
                time.sleep(0.2)  # so that what has come is read before the connection's end is seen
                self.close_connection = True

        do_HEAD = do_GET  # noqa: N815 - the base's name

        def log_message(self, *words):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def part_of_another_version(reply):
    if reply.is_part and reply.number % 3 == 2:
        reply.content, reply.etag = OTHER[reply.start : reply.end], '"other"'


def part_from_another_place(reply):
    if reply.is_part and reply.start:
        reply.content, reply.place = RIGHT[: reply.length], f"bytes 0-{reply.length - 1}/{len(RIGHT)}"


def all_instead_of_parts(reply):
    if reply.is_part:  # a proxy's, as long as the part
        reply.status, reply.content = 200, RIGHT[: reply.length]


def parts_of_an_unknown_whole(reply):
    reply.place = reply.place.replace(f"/{len(RIGHT)}", "/*")


def parts_without_a_place(reply):
    reply.place = None


def shorter_parts_than_asked_for(reply):
    if reply.is_part and reply.length > 1000:
        reply.content, reply.length = reply.content[:1000], 1000
        reply.place = f"bytes {reply.start}-{reply.start + 999}/{len(RIGHT)}"


LIES = [
    part_of_another_version,
    part_from_another_place,
    all_instead_of_parts,
    parts_of_an_unknown_whole,
    parts_without_a_place,
    shorter_parts_than_asked_for,
]


@pytest.fixture
def copy(shelf):
    gate = Gate(1, chunk_s=1e-9)  # chunks of 4 KiB
    return lambda url, options=None: Transfer(File(url), Sources(options), shelf, gate, QUICK).run().path


@pytest.mark.parametrize("lie", LIES)
def test_a_file_is_right_whatever_comes_in_place_of_its_parts(copy, lie):
    with liar(lie) as url:
        assert copy(f"{url}/in.dat").read_bytes() == RIGHT


def test_an_object_has_no_part_of_another_version(copy):
    with liar(part_of_another_version) as url:
        options = {"s3": {"endpoint_url": url, "anon": True, "region": "us-east-1"}}
        assert copy("s3://bucket/in.dat", options).read_bytes() == RIGHT


def test_an_odd_answer_once_costs_one_part_and_says_nothing_of_other_files(shelf):
    odd = iter([False, False, True])

    def lie(reply):
        if reply.is_part and reply.start and next(odd, False):
            all_instead_of_parts(reply)

    gate, sources = Gate(1, chunk_s=1e-9), Sources()
    with liar(lie) as url:
        receipt = Transfer(File(f"{url}/in.dat"), sources, shelf, gate, QUICK).run()
        assert receipt.path.read_bytes() == RIGHT
        assert receipt.transferred_bytes == len(RIGHT), "it went on where it was"
        assert sources.facts(f"{url}/other.dat").ranges


def test_a_file_without_parts_says_nothing_of_others_on_its_server(shelf):
    comes_whole = True

    def lie(reply):
        if comes_whole and reply.status == 206:
            reply.status, reply.content, reply.length = 200, RIGHT, len(RIGHT)

    sources = Sources()
    with liar(lie) as url:
        assert not sources.facts(f"{url}/first.dat").ranges
        comes_whole = False
        assert sources.facts(f"{url}/second.dat").ranges


def test_a_size_that_neither_parts_nor_head_tell_is_that_of_the_whole(copy):
    def lie(reply):
        parts_of_an_unknown_whole(reply)
        if reply.method == "HEAD":
            reply.status = 405

    with liar(lie) as url:
        assert copy(f"{url}/in.dat").read_bytes() == RIGHT


def test_a_file_without_a_size_is_refused(copy):
    def lie(reply):
        reply.status, reply.length = 200, None

    with liar(lie) as url, pytest.raises(SourceError, match="doesn't tell its size"):
        copy(f"{url}/in.dat")


def test_a_file_that_breaks_off_at_the_same_place_each_time_is_given_up(copy):
    def lie(reply):
        reply.status, reply.content, reply.length = 200, RIGHT[:50_000], len(RIGHT)

    with liar(lie) as url, pytest.raises(SourceError, match="gave up after 3 failures in a row") as refused:
        copy(f"{url}/in.dat")
    assert "\n" not in str(refused.value)


def test_a_server_that_says_nothing_is_given_up_and_one_that_is_slow_is_not():
    asked, ended = threading.Event(), threading.Event()

    def hang(reply):
        asked.set()
        ended.wait(300)

    files = RemoteFiles({}, timeout_s=0.2)
    with liar(hang) as url:
        with pytest.raises(FSTimeoutError):
            files.facts(f"{url}/in.dat")
        ended.set()
    assert asked.is_set()
    assert files._system(f"{url}/in.dat")[0].client_kwargs["timeout"].total is None


@contextmanager
def silent(said, lasts_s=None):
    """Answer each request with the same bytes and nothing more; gives the URL, and the connections that came.

    They stay open, or break after some seconds.
    """
    connections = []
    with socket.create_server(("127.0.0.1", 0)) as door:

        def answer():
            with suppress(OSError):
                while True:
                    connections.append(door.accept()[0])
                    with suppress(OSError):  # whoever has asked is patient no more
                        connections[-1].recv(1 << 16)
                        connections[-1].sendall(said)
                    if lasts_s is not None:
                        time.sleep(lasts_s)
                        connections[-1].close()

        threading.Thread(target=answer, daemon=True).start()
        yield f"http://127.0.0.1:{door.getsockname()[1]}", connections
        door.shutdown(socket.SHUT_RDWR)
    for each in connections:
        each.close()


def read_by(store, name):
    with store.open(name, Facts(1000, None)) as source:
        source.read(0, 1000)


def at(url):
    return {"endpoint_url": url, "anon": True, "region": "us-east-1"}


BEGUN = b"""HTTP/1.1 206 Here\r\nContent-Length: 1000\r\nContent-Range: bytes 0-999/1000\r\nETag: "right"\r
Last-Modified: Wed, 21 Oct 2015 07:28:00 GMT\r\n\r\n0123"""


@pytest.mark.parametrize("said", [b"", BEGUN], ids=["at once", "within an answer"])
@pytest.mark.parametrize("kind", ["http", "s3"])
def test_a_silent_server_is_asked_twice(kind, said):
    with silent(said) as (url, connections):
        if kind == "http":
            name, store = f"{url}/in.dat", RemoteFiles({}, timeout_s=0.3)
        else:
            name, store = "s3://bucket/in.dat", ObjectStore(at(url), timeout_s=1)
        with pytest.raises(SourceError, match="gave up after 2 failures in a row") as refused:
            persist(partial(read_by, store, name), name, Retry(first_s=0.01))
        until(lambda: len(connections) >= 2)  # also those that were given up before they were taken in
        assert len(connections) == 2
    assert "\n" not in str(refused.value)


def test_a_server_of_s3_that_breaks_off_after_a_second_is_not_silent():
    with silent(b"", 1.01) as (url, connections):
        work = partial(read_by, ObjectStore(at(url)), "s3://bucket/in.dat")
        with pytest.raises(SourceError, match=r"gave up after 3 failures in a row .*no S3 server answers at"):
            persist(work, "s3://bucket/in.dat", Retry(attempts=3, first_s=0.01))
        assert len(connections) == 3


def test_a_server_of_s3_that_lets_nobody_in_is_not_there():
    with socket.socket() as door, ExitStack() as stack:
        door.bind(("127.0.0.1", 0))
        door.listen(0)
        for _ in range(3):  # until its queue is full
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(door.getsockname())
        store = ObjectStore(at(f"http://127.0.0.1:{door.getsockname()[1]}"))
        with pytest.raises(ConnectionError, match="no S3 server answers at"):
            store.facts("s3://bucket/in.dat")
