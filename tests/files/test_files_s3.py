"""Before a server that knows S3: what is in the bucket is seen, what is closed comes there, whatever it refuses."""

import errno
import os
import subprocess
import sys
import threading
import time
from contextlib import closing
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import obstore
import pytest

from bbflow.cli import main
from bbflow.errors import SourceError
from bbflow.files.ionode.storage import Storage
from bbflow.staging.retry import Retry
from bbflow.stores.objects import ObjectStore
from testsupport.object_server import objects_in, put_object
from testsupport.servers import object_server


@pytest.fixture
def bucket(known_endpoint):
    return objects_in(known_endpoint)


def test_the_bucket_is_the_namespace_and_gets_plain_objects(servers, bucket):
    content = os.urandom(12_000_000)
    obstore.put(bucket, "run/in/tile 1 %20.fits", content)
    client = servers.start(nodes=2, url="s3://bucket/run", master=("--piece", "5MiB"))
    assert client.read("/in/tile 1 %20.fits") == content
    client.write("/out.dat", content)
    client.rename("/in", "/moved")
    assert client.flush(wait_s=100).left == 0
    objects = {meta["path"] for page in obstore.list(bucket, "run") for meta in page}
    assert objects == {"run/moved/tile 1 %20.fits", "run/out.dat"}
    assert bytes(obstore.get(bucket, "run/out.dat").bytes()) == content
    client.unlink("/out.dat")
    client.flush(wait_s=100)
    obstore.put(bucket, "run/later", b"by someone else")
    client.refresh("/")
    assert client.read("/later") == b"by someone else"
    assert [entry.path for entry in client.entries("/")] == ["/later", "/moved"]


def test_a_bucket_that_is_missing_is_told_of_when_nodes_come_up(bucket, tmp_path, short_path):
    contact = ["--contact", str(tmp_path / "contact.json")]
    words = ["up", *contact, "--directory", str(short_path), "--capacity", "8MiB", "--files", "s3://none-such/run"]
    up = subprocess.run([sys.executable, "-m", "bbflow", *words], capture_output=True, text=True, check=True)
    assert main(["down", *contact]) == 0
    assert "bbflow: s3://none-such/run: there is no bucket 'none-such'" in up.stderr
    assert "until it answers, each call for files fails with EIO" in up.stderr


def test_what_would_be_written_to_a_bucket_that_is_missing_says_so(bucket):
    with pytest.raises(SourceError, match="there is no bucket 'none-such': make it"):
        Storage("s3://none-such/run").write("f", lambda: [b"1"], 1, None)


def test_a_storage_that_is_empty_is_nothing_to_tell_of(bucket, tmp_path):
    for url in ("s3://bucket/to/come", str(tmp_path / "to" / "come")):
        assert Storage(url).refusal() is None


def test_a_name_that_no_object_could_have_is_refused_and_an_old_one_can_be_removed(servers, bucket):
    client = servers.start(url="s3://bucket/named")
    client.mkdir("/d")
    client.write("/d/f", b"1")
    actions = [lambda: client.write("/a\tb", b""), lambda: client.mkdir("/\x7f"), lambda: client.rename("/d", "/e\n")]
    for action in actions:
        with pytest.raises(OSError, match="control character") as refused:
            action()
        assert refused.value.errno == errno.EILSEQ
    assert client.flush(wait_s=60).left == 0
    storage = Storage("s3://bucket/named")
    storage.remove("a\tb", None)
    storage.remove("d//f", None)
    with pytest.raises(SourceError, match="control character"):
        storage.write("a\tb", lambda: [b"1"], 1, None)
    assert [meta["path"] for page in obstore.list(bucket, "named") for meta in page] == ["named/d/f"]


@pytest.mark.parametrize("odd", ["d//f", "../f", "d/a\tb", "d\x7f/f"])
def test_an_object_whose_name_is_no_path_is_told_of_and_keeps_no_other_from_being_read(servers, bucket, endpoint, odd):
    prefix = f"odd{odd.encode().hex()}"
    for name in ("d/g", "h", odd):
        put_object(endpoint, f"{prefix}/{name}", name.encode())
    client = servers.start(url=f"s3://bucket/{prefix}")
    assert [entry.path for entry in client.entries("/")] == ["/d", "/h"]
    assert [client.read("/d/g"), client.read("/h")] == [b"d/g", b"h"]
    client.refresh("/")
    assert [entry.path for entry in client.entries("/d")] == ["/d/g"]
    assert client.status()[0].unread == ((repr(odd)[1:-1], "the object is left out, since its name isn't a path"),)
    client.rename("/d", "/e")
    assert client.flush(wait_s=60).left == 0


def test_objects_that_cannot_be_shown_are_named_and_no_file_takes_their_place(servers, bucket, endpoint):
    hidden = ["both", "a//b", "/lead", "c/d//e", "x/../y"]
    for key in (*hidden, "both/inside", "ok"):
        put_object(endpoint, f"hidden/{key}", b"old " + key.encode())
    client = servers.start(url="s3://bucket/hidden")
    for path in ("/both", "/a", "/c/d", "/x"):  # each is looked at when it is used
        assert [entry.path for entry in client.entries(path)] == (["/both/inside"] if path == "/both" else [])
    assert {path for path, _ in client.status()[0].unread} == set(hidden)
    client.rename("/both", "/moved")
    client.write("/new", b"new")
    client.mkdir("/d/both", parents=True)
    client.write("/d/both/inside", b"new")
    client.rename("/d/both", "/both")  # a directory isn't an object
    client.rename("/both", "/other")
    attempts = [
        lambda: client.write("/both", b"new"),
        lambda: client.rename("/new", "/both"),
        lambda: client.rename("/moved/inside", "/both"),
    ]
    for attempt in attempts:
        with pytest.raises(FileExistsError, match="isn't shown here: a directory has the name 'both'"):
            attempt()
    assert client.flush(wait_s=60).left == 0
    assert bytes(obstore.get(bucket, "hidden/both").bytes()) == b"old both"
    client.refresh("/")
    assert client.read("/both") == b"old both"
    assert client.read("/moved/inside") == b"old both/inside"


def test_what_lies_below_a_name_that_a_file_has_is_named_and_found_once_it_is_a_directory(servers, bucket, endpoint):
    client = servers.start(url="s3://bucket/below")
    client.write("/both", b"mine")
    assert client.flush(wait_s=60).left == 0
    put_object(endpoint, "below/both/inside", b"old")
    client.refresh("/")
    (((path, reason),),) = (client.status()[0].unread,)
    assert (path, "a file has the name 'both'" in reason) == ("both/inside", True)
    client.unlink("/both")
    client.mkdir("/d")
    client.write("/d/inside", b"new")
    with pytest.raises(FileExistsError, match="both/inside"):
        client.rename("/d", "/both")
    client.mkdir("/both")
    assert client.read("/both/inside") == b"old"


def test_whoever_waits_for_a_server_that_is_gone_is_told_why_with_the_first_attempt(
    servers, bucket, tmp_path, monkeypatch
):
    with object_server(tmp_path / "log") as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        client = servers.start(url="s3://bucket/gone", master=("--write-back", "end"))
        client.write("/f", b"a")
        assert client.flush(wait_s=60).left == 0
    client.write("/f", b"b")
    assert client.read("/f") == b"b"  # in a directory that was used while the server was there
    command = [sys.executable, "-m", "bbflow", "files", "flush", "--contact", str(servers.contact), "--timeout", "60"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as flush:
        try:
            said = flush.stderr.readline()
            ((path, reason, attempts),) = client.status()[0].failed
            assert flush.poll() is None
        finally:
            flush.kill()
    reason_is = f"no S3 server answers at {url}"
    assert said.startswith("bbflow: f: ")
    assert reason_is in said
    assert (path, reason_is in reason) == ("f", True)
    assert attempts < Retry().attempts


@dataclass
class Rules:
    """What a server does to requests."""

    refused: list[int] = field(default_factory=list)
    """Places of those that are refused among all that write, in order."""
    count: int = 0
    """How many have written."""
    lost: int = 0
    """To how many deletions the answer doesn't come."""
    forbids: bool = False
    """Whether nothing may be written."""
    slow_s: float = 0.0
    """How long each upload takes at least, and each third of what is read."""


class Throttle(BaseHTTPRequestHandler):
    """Passes requests on, but for some that write: these are refused, broken off, or get no answer."""

    def answer(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.command in ("PUT", "POST"):
            self.server.rules.count += 1
            if self.server.rules.forbids:
                self.reply(403, {}, b"<Error><Code>InvalidAccessKeyId</Code></Error>")
                return
        if self.command in ("PUT", "POST") and self.server.rules.refused[:1] == [self.server.rules.count]:
            if self.server.rules.refused.pop(0) % 2:
                self.close_connection = True  # the connection is lost in the middle
            else:
                self.reply(503, {}, b"slow down")
            return
        connection = HTTPConnection(self.server.target.removeprefix("http://"), timeout=60)
        with closing(connection):
            connection.request(self.command, self.path, body, dict(self.headers))
            reply = connection.getresponse()
            time.sleep(self.server.rules.slow_s if self.command == "PUT" else 0)
            if self.server.rules.lost and (self.command == "DELETE" or "?delete" in self.path):
                self.server.rules.lost -= 1
                self.close_connection = True
                return
            self.reply(reply.status, dict(reply.getheaders()), reply.read())

    def reply(self, status, headers, body):
        self.send_response(status)
        for key, value in headers.items():
            if key.lower() not in ("connection", "transfer-encoding", "date", "server"):
                self.send_header(key, value)
        if "content-length" not in {key.lower() for key in headers}:
            self.send_header("content-length", str(len(body)))
        self.end_headers()
        third = len(body) // 3 + 1
        for at in range(0, len(body) if self.command != "HEAD" else 0, third):
            self.wfile.write(body[at : at + third])
            time.sleep(self.server.rules.slow_s if self.command == "GET" else 0)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = answer  # noqa: N815 - http.server's names

    def log_message(self, *_):
        pass


@pytest.fixture
def throttled(bucket, endpoint, monkeypatch):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Throttle)
    server.target, server.rules = endpoint, Rules()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
    yield bucket, server.rules
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(("size", "refused"), [(4, [1, 2, 3]), (30_000_000, [2, 3, 5])], ids=["whole", "in parts"])
def test_a_server_that_throttles_and_hangs_up_loses_nothing(servers, throttled, size, refused):
    (store, rules), content = throttled, os.urandom(size)
    rules.refused = list(refused)
    client = servers.start(url="s3://bucket/throttled")
    client.write("/f", content)
    assert client.flush(wait_s=60).left == 0, client.status()[0].failed
    assert rules.refused == []
    assert bytes(obstore.get(store, "throttled/f").bytes()) == content


@pytest.mark.parametrize("size", [1, 12_000_000], ids=["whole", "in parts"])
def test_who_may_not_write_is_told_so_at_once_in_a_line(throttled, size):
    throttled[1].forbids = True
    with pytest.raises(SourceError, match=r"^s3://bucket/no/f: no permission; check [\w ,]+$"):
        Storage("s3://bucket/no").write("f", lambda: [bytes(size)], size, None)


def test_what_takes_long_is_waited_for_while_it_moves_and_what_stands_still_is_told_of(throttled):
    store, rules = throttled
    rules.slow_s = 1.2
    storage = Storage("s3://bucket/slow", Retry(attempts=1), ObjectStore({}, timeout_s=3))
    content = os.urandom(12_000_000)
    obstore.put(store, "slow/there", b"abc" * 1000)
    ((_, size, version, _),) = next(storage.scan("", below=False)).objects
    assert storage.read("there", 0, size, (size, version)) == b"abc" * 1000
    storage.write("before", lambda: [content], len(content), None)  # what conditions the server knows is tried once
    rules.slow_s = 3.6
    storage.write("parts", lambda: [content], len(content), None)
    assert bytes(obstore.get(store, "slow/parts").bytes()) == content
    with pytest.raises(SourceError, match="gave no answer in 3 s: it hangs, or the way there is too slow"):
        storage.write("whole", lambda: [b"a"], 1, None)


def test_a_move_whose_answer_was_lost_is_done(servers, throttled):
    store, rules = throttled
    client = servers.start(url="s3://bucket/lost")
    client.write("/f", b"1234")
    assert client.flush(wait_s=60).left == 0
    rules.lost = 1
    client.rename("/f", "/g")
    assert client.flush(wait_s=60).left == 0, client.status()[0].failed
    assert rules.lost == 0
    assert [meta["path"] for page in obstore.list(store, "lost") for meta in page] == ["lost/g"]
