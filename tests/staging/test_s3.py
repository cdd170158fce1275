"""Against a server that knows S3, multi-part uploads and their ETags included."""

import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from bbflow.errors import ConfigError, SourceError
from bbflow.staging import File, Gate, Retry, Stager
from bbflow.staging.matching import expand
from bbflow.staging.transfers import stage_out
from bbflow.stores.objects import upload_parts
from bbflow.stores.sources import Sources
from testsupport.object_server import options_of, put_object

QUICK = Retry(attempts=3, first_s=0.01)


@pytest.fixture(scope="module")
def options(endpoint):
    return options_of(endpoint)


@pytest.mark.parametrize(("size_bytes", "checksum"), [(1000, True), (12_000_000, False)])
def test_what_is_staged_out_is_staged_in_again_in_one_or_several_parts(options, tmp_path, size_bytes, checksum):
    source, url = tmp_path / "in.dat", f"s3://bucket/deep/{size_bytes}.dat"
    source.write_bytes(os.urandom(size_bytes))
    assert stage_out(source, url, Sources(options), Gate(1), QUICK) == size_bytes
    assert (Sources(options).facts(url).checksum is not None) == checksum
    with Stager(tmp_path / "bb", 1 << 30, 1, options=options, retry=QUICK) as one:
        assert one.submit("t", [File(url)]).result(300)[url].read_bytes() == source.read_bytes()


@pytest.mark.parametrize("size_bytes", [0, 100_000_000_000, 1 << 40, 5 << 40])
def test_an_upload_has_no_more_parts_than_s3_takes_and_little_memory(size_bytes):
    part, at_once = upload_parts(size_bytes)
    assert part * 10_000 >= size_bytes
    assert at_once == 1 or part * at_once <= 12 * (10 << 20)


def test_an_upload_that_breaks_off_never_appears(options):
    sources = Sources(options)
    with pytest.raises(RuntimeError), sources.create("s3://bucket/broken", 24_000_000) as target:  # noqa: PT012 - it is one story
        target.write(b"x" * 12_000_000)
        raise RuntimeError
    with pytest.raises(SourceError, match="isn't there"):
        sources.facts("s3://bucket/broken")


def test_the_environment_gives_credentials_and_endpoint(options, monkeypatch, tmp_path):
    given = options["s3"]
    names = {"AWS_ENDPOINT_URL": "endpoint_url", "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
    for name, key in (names | {"AWS_REGION": "region"}).items():
        monkeypatch.setenv(name, given[key])
    (tmp_path / "a").write_bytes(b"abc")
    assert stage_out(tmp_path / "a", "s3://bucket/a", Sources(), Gate(1), QUICK) == 3


def test_a_users_profile_gives_credentials(options, monkeypatch, tmp_path):
    (tmp_path / "credentials").write_text("[lab]\naws_access_key_id = k\naws_secret_access_key = s\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_PROFILE", "lab")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    there = {key: options["s3"][key] for key in ("endpoint_url", "region")}
    (tmp_path / "b").write_bytes(b"abc")
    assert stage_out(tmp_path / "b", "s3://bucket/b", Sources({"s3": there}), Gate(1), QUICK) == 3


@pytest.fixture(scope="module")
def listed(options):
    """Objects below a prefix, some of them in deeper ones."""
    sources = Sources(options)
    names = ["a.fits", "b.fits", "c.txt", "d1/a.fits", "d1/e/f.fits", "d2/a.fits"]
    for number, name in enumerate(names):
        with sources.create(f"s3://bucket/tree/{name}", number + 1) as file:
            file.write(b"x" * (number + 1))
    return names


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.fits", ["a.fits", "b.fits"]),
        ("d?/*.fits", ["d1/a.fits", "d2/a.fits"]),
        ("**/a.fits", ["a.fits", "d1/a.fits", "d2/a.fits"]),
        ("d1/", ["d1/a.fits", "d1/e/f.fits"]),
    ],
)
def test_a_pattern_or_a_prefix_is_the_objects_that_it_stands_for(options, listed, pattern, found):
    files = expand(f"s3://bucket/tree/{pattern}", Sources(options))
    assert [file.url.removeprefix("s3://bucket/tree/") for file in files] == found
    assert [file.size_bytes for file in files] == [listed.index(name) + 1 for name in found]
    assert [file.name for file in files] == found


def test_a_mark_of_a_directory_is_no_file(options):
    for path in ("marked/", "marked/d/", "marked/d/f", "marked/d/e/", "marked/none/", "marked/empty", "marked/d-f"):
        put_object(options["s3"]["endpoint_url"], path)
    put_object(options["s3"]["endpoint_url"], "marked/d/g", b"1")
    files = {file.name: file.size_bytes for file in Sources(options).tree("s3://bucket/marked")}
    assert files == {"d/g": 1, "d/f": 0, "empty": 0, "d-f": 0}
    assert len(expand("s3://bucket/marked/", Sources(options))) == 4


@pytest.mark.parametrize("odd", ["//f", "/../f", "/./f", "/a\tb", "/a\x7f/f", "/g/d//f"])
def test_an_object_whose_name_is_no_path_is_left_out_and_named(options, capsys, odd):
    prefix = f"odd{odd.encode().hex()}"
    for name in ("/d/", "/d/a b+%20", "/empty", "/g/z", odd):
        put_object(options["s3"]["endpoint_url"], prefix + name, b"" if name in ("/d/", "/empty") else b"1")
    sources = Sources(options)
    files = {file.name: file.is_usable for file in sources.tree(f"s3://bucket/{prefix}")}
    assert files == {"d/a b+%20": True, "empty": True, "g/z": True, odd[1:]: False}
    files, directories = sources.children(f"s3://bucket/{prefix}")
    assert [file.name for file in files if file.is_usable] == ["empty"]
    assert directories == ["d", "g"]
    assert len(expand(f"s3://bucket/{prefix}/", sources)) == 3
    assert f"{f's3://bucket/{prefix}{odd}'!r} is left out" in capsys.readouterr().err
    assert [file.name for file in expand(f"s3://bucket/{prefix}/*/*", sources)] == ["d/a b+%20", "g/z"]


def test_more_objects_than_a_page_has_are_listed_beside_one_whose_name_is_no_path(options):
    names = [f"{number:04}" for number in range(1100)]
    for name in [*names, "0500//f"]:
        put_object(options["s3"]["endpoint_url"], f"pages/{name}", b"1")
    files = [file for file in Sources(options).tree("s3://bucket/pages") if file.is_usable]
    assert [file.name for file in files] == names
    assert [file.size_bytes for file in files] == [1] * len(names)


def test_a_pattern_that_matches_no_object_is_one_clear_error(options, listed):
    with pytest.raises(SourceError, match="matches no file: check it"):
        expand("s3://bucket/tree/*.nc", Sources(options))


@pytest.mark.parametrize("pattern", ["*", "d/*", "**", ""])
def test_a_bucket_that_is_missing_is_one_clear_error(options, pattern):
    with pytest.raises(SourceError, match="there is no bucket 'none-such': make it"):
        expand(f"s3://none-such/{pattern}", Sources(options))


def test_a_server_that_fails_while_it_lists_is_one_clear_error(options):
    class Failing(Sources):
        def children(self, url):
            raise ValueError("no XML")

    with pytest.raises(SourceError, match=r"bucket/\* can't be listed: ValueError: no XML"):
        expand("s3://bucket/*", Failing(options))


@pytest.mark.parametrize(
    "endpoint", ["localhost", "127.0.0.1:9000", "http://", "http://[x", "http://h:port", "ftp://h"]
)
def test_an_endpoint_that_is_no_url_is_one_clear_error(endpoint, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    with pytest.raises(ConfigError, match="isn't an endpoint of S3: write AWS_ENDPOINT_URL like"):
        Sources().facts("s3://bucket/f")
    with pytest.raises(ConfigError, match="isn't an endpoint of S3"):
        Sources({"s3": {"endpoint_url": endpoint}})


def test_a_name_that_no_bucket_has_is_one_clear_error(options):
    with pytest.raises(ConfigError, match="names no object"):
        Sources(options).facts("s3://no bucket/f")


@pytest.fixture
def refusing():
    """A server that refuses each request as versitygw and Amazon's do a bucket's name that can be none."""

    class Refusing(BaseHTTPRequestHandler):
        def do_GET(self):
            said = b"<Error><Code>InvalidBucketName</Code><Message>The specified bucket is not valid.</Message></Error>"
            self.send_response(400)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(said)

        do_HEAD = do_GET  # noqa: N815 - the library's name

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield {"s3": {"endpoint_url": f"http://127.0.0.1:{server.server_port}", "key": "k", "secret": "s"}}
        server.shutdown()


@pytest.mark.parametrize(
    "look", [lambda sources: sources.facts("s3://Big_Bucket/key"), lambda sources: expand("s3://Big_Bucket/*", sources)]
)
def test_a_bucket_of_a_name_that_the_server_refuses_is_one_line_without_xml(refusing, look):
    with pytest.raises(SourceError, match="'Big_Bucket' can't be a bucket's name") as raised:
        look(Sources(refusing))
    assert "<" not in str(raised.value)


def test_sizes_of_many_objects_are_listed_and_not_asked_for(options):
    sources = Sources(options)
    urls = [f"s3://bucket/sizes/{n:03}" for n in range(30)]
    for number, url in enumerate(urls):
        with sources.create(url, number) as file:
            file.write(b"x" * number)
    expected = {url: number for number, url in enumerate(urls)}
    assert sources.sizes([*urls, "s3://bucket/sizes/none"]) == expected
    assert sources.sizes(urls[15:]) == {url: expected[url] for url in urls[15:]}
    assert sources.sizes(urls[:3]) == {}, "each of so few is asked for"


@pytest.mark.parametrize("kind", ["GLACIER", "DEEP_ARCHIVE"])
@pytest.mark.parametrize("size_bytes", [10, 100_000])
def test_an_archived_object_is_to_be_restored_and_nobody_looks_for_permissions(options, tmp_path, kind, size_bytes):
    url = f"s3://bucket/cold/{kind}-{size_bytes}"
    put_object(options["s3"]["endpoint_url"], url.partition("bucket/")[2], bytes(size_bytes), x_amz_storage_class=kind)
    with (
        Stager(tmp_path / "bb", 1 << 20, 1, options=options, retry=QUICK) as stager,
        pytest.raises(SourceError, match=rf"{url} is archived.*: restore it first"),
    ):
        stager.submit("t", [File(url)]).result(60)
