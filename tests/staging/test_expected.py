"""What others have written is never overwritten, moved or removed: on each kind of store."""

import os
import random
import shutil
import urllib.request

import pytest

from bbflow.errors import ChangedSourceError, ConflictError
from bbflow.stores.facts import Expected
from bbflow.stores.remote import RemoteFiles
from bbflow.stores.sources import Sources
from testsupport.object_server import options_of
from testsupport.servers import object_servers

NOTHING = Expected(None)


@pytest.fixture(scope="module")
def server(endpoint):
    return options_of(endpoint)


@pytest.fixture(scope="module")
def versitygw():
    if shutil.which("versitygw") is None:
        pytest.skip("versitygw isn't on the PATH: go install github.com/versity/versitygw/cmd/versitygw@latest")
    with object_servers()["versitygw"]() as options:
        yield {"s3": options}


class Place:
    def __init__(self, base, sources):
        self.base, self.sources = base, sources

    def url(self, name):
        return f"{self.base}/{name}"

    def put(self, name, content, over=None):
        with self.sources.create(self.url(name), len(content), over) as file:
            file.write(content)
        return self.known(name)

    def known(self, name):
        facts = self.sources.facts(self.url(name))
        return Expected((facts.size_bytes, facts.version or ""))

    def content(self, name):
        facts = self.sources.facts(self.url(name))
        with self.sources.open(self.url(name), facts) as reader:
            return reader.read(0, facts.size_bytes)

    def names(self):
        return sorted(file.name for file in self.sources.tree(self.base))


@pytest.fixture(params=["directory", "server", "versitygw", "fsspec"])
def place(request, tmp_path):
    if request.param == "fsspec":
        yield Place(f"file://{tmp_path}/place", RemoteFiles({}))
    elif request.param in ("server", "versitygw"):
        yield Place(f"s3://bucket/{tmp_path.name}", Sources(request.getfixturevalue(request.param)))
    else:
        yield Place(str(tmp_path / "place"), Sources())
        shutil.rmtree(tmp_path / "place")


def test_a_file_is_written_where_nothing_is_and_over_what_is_known(place):
    known = place.put("a", b"one", NOTHING)
    assert place.content("a") == b"one"
    place.put("a", b"second", known)
    assert place.content("a") == b"second"
    assert place.names() == ["a"]


@pytest.mark.parametrize("size", [3, 11 << 20])
def test_what_someone_has_written_is_not_overwritten(place, size):
    known = place.put("a", b"one", NOTHING)
    place.put("a", b"theirs")
    for over in (NOTHING, known):
        with pytest.raises(ConflictError, match="a was written by someone else"):
            place.put("a", bytes(size), over)
    assert place.content("a") == b"theirs"
    assert place.names() == ["a"]


def test_what_someone_has_written_is_not_removed(place):
    known = place.put("a", b"one", NOTHING)
    place.put("a", b"theirs")
    with pytest.raises(ConflictError):
        place.sources.remove(place.url("a"), known)
    assert place.content("a") == b"theirs"
    place.sources.remove(place.url("a"), place.known("a"))
    place.sources.remove(place.url("a"), known)  # it has gone
    assert place.names() == []


class Late:
    """What is expected, which someone changes just after it was looked at."""

    def __init__(self, expected, change):
        self.facts, self._expected, self._change = expected.facts, expected, change

    def check(self, url, found):
        self._expected.check(url, found)
        self._change()


def uploads(server):
    """What an S3 server holds of objects that aren't whole."""
    endpoint = server["s3"]["endpoint_url"]
    with urllib.request.urlopen(f"{endpoint}/bucket?uploads", timeout=60) as reply:
        return reply.read().count(b"<UploadId>")


def test_an_object_of_many_parts_is_whole_and_nothing_is_left_of_one_that_fails(server, tmp_path):
    place = Place(f"s3://bucket/{tmp_path.name}", Sources(server))
    content = random.Random(1).randbytes(45 << 20)
    with place.sources.create(place.url("a b/ü?"), len(content), NOTHING) as file:
        for start in range(0, len(content), 3_000_000):
            file.write(content[start : start + 3_000_000])
    known = place.known("a b/ü?")
    assert place.content("a b/ü?") == content
    place.put("a b/ü?", content[::-1], known)
    assert place.content("a b/ü?") == content[::-1]
    with pytest.raises(TypeError), place.sources.create(place.url("b"), 45 << 20, NOTHING) as file:
        file.write([content, "which is no bytes"])
    assert place.names() == ["a b/ü?"]
    assert uploads(server) == 0


def test_the_condition_of_an_object_of_many_parts_is_the_server_s(versitygw):
    """Of moto's it isn't: it knows none for that."""
    place = Place("s3://bucket/place", Sources(versitygw))
    for name, expected in (("a", place.put("a", b"one", NOTHING)), ("b", NOTHING)):
        with pytest.raises(ConflictError):
            place.put(name, bytes(11 << 20), Late(expected, lambda name=name: place.put(name, b"theirs")))
        assert place.content(name) == b"theirs"
    gone = Late(place.known("a"), lambda: place.sources.remove(place.url("a")))
    with pytest.raises(ConflictError):
        place.put("a", bytes(11 << 20), gone)
    assert place.names() == ["b"]


@pytest.mark.parametrize("size", [3, 11 << 20])
def test_a_file_is_moved_as_it_is_known_and_to_where_only_what_is_known_lies(place, size):
    content = bytes(size)
    known, target = place.put("a", content, NOTHING), place.put("b", b"there", NOTHING)
    place.sources.move(place.url("a"), place.url("b"), known, target)
    assert place.content("b") == content
    place.sources.move(place.url("b"), place.url("deep/c"), place.known("b"), NOTHING)
    assert place.content("deep/c") == content
    assert place.names() == ["deep/c"]


def test_a_move_takes_no_bytes_of_others_and_replaces_none(place):
    known, target = place.put("a", b"one", NOTHING), place.put("b", b"there", NOTHING)
    place.put("a", b"theirs")
    with pytest.raises(ChangedSourceError):
        place.sources.move(place.url("a"), place.url("c"), known, NOTHING)
    place.put("b", b"others")
    for over in (NOTHING, target):
        with pytest.raises(ConflictError):
            place.sources.move(place.url("a"), place.url("b"), place.known("a"), over)
    assert (place.content("a"), place.content("b")) == (b"theirs", b"others")
    assert place.names() == ["a", "b"]


@pytest.mark.parametrize("size", [3, 11 << 20])
def test_what_is_told_of_a_file_that_was_written_or_moved_is_of_its_own_bytes(place, size):
    """Not of what others have written there by the time that someone asks."""
    with place.sources.create(place.url("a"), size, NOTHING) as target:
        target.write(bytes(size))
    moved = place.sources.move(place.url("a"), place.url("b"), place.known("a"), NOTHING)
    told = {"a": target.facts, "b": moved}
    for name, facts in told.items():
        place.put(name, b"x" * size)
        if facts is not None:
            with pytest.raises(ConflictError):
                place.put(name, b"ours", Expected((facts.size_bytes, facts.version)))
        assert place.content(name) == b"x" * size
    is_told = [facts is not None for facts in told.values()]
    if isinstance(place.sources, RemoteFiles):
        assert is_told == [False, False]
    else:  # S3 has no condition for copies, by which large objects are moved
        assert is_told == [True, size == 3 or not place.base.startswith("s3:")]


def test_a_file_that_was_written_is_known_by_what_is_told_of_it(place):
    with place.sources.create(place.url("a"), 3, NOTHING) as target:
        target.write(b"one")
    assert target.facts is None or (target.facts.size_bytes, target.facts.version) == place.known("a").facts
    moved = place.sources.move(place.url("a"), place.url("b"), place.known("a"), place.put("b", b"there", NOTHING))
    assert moved is None or (moved.size_bytes, moved.version) == place.known("b").facts


def test_a_change_whose_size_and_time_are_as_before_is_seen_in_a_directory(tmp_path):
    place = Place(str(tmp_path), Sources())
    known, path = place.put("a", b"one", NOTHING), tmp_path / "a"
    before = path.stat()
    path.write_bytes(b"two")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(ConflictError):
        place.put("a", b"ours", known)


def test_a_store_says_what_it_cannot_check(place):
    weak = place.sources.weakness(place.url("a"))
    assert weak == ("fsspec has no requests with a condition" if isinstance(place.sources, RemoteFiles) else "")
    place.put("a", b"x")
    assert place.names() == ["a"]


@pytest.mark.parametrize("ignored", ["PUT", "DELETE"])
def test_a_server_that_ignores_conditions_is_noticed_and_looked_at_instead(server, tmp_path, ignored, monkeypatch):
    """As servers do that don't know a header: here it doesn't arrive."""
    sources = Sources(server)
    place = Place(f"s3://bucket/{tmp_path.name}", sources)
    store = sources._store(place.base)
    if ignored == "PUT":
        put = store._obstore.put
        monkeypatch.setattr(store._obstore, "put", lambda *given, mode=None, **more: put(*given, **more))
    else:
        monkeypatch.setattr(store, "_delete", lambda url, known: store.remove(url))
    known = place.put("a", b"one", NOTHING)
    assert f"ignores the condition{'s' * (ignored == 'PUT')} of a {ignored}" in sources.weakness(place.base + "/a")
    place.put("a", b"theirs")
    with pytest.raises(ConflictError):
        place.put("a", b"ours", known)
    with pytest.raises(ConflictError):
        sources.remove(place.url("a"), known)
    with pytest.raises(ChangedSourceError):
        sources.move(place.url("a"), place.url("b"), known, NOTHING)
    assert place.content("a") == b"theirs"
    assert place.names() == ["a"]
