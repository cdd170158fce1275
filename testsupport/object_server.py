"""What tests do with a server that knows S3, in a process of its own."""

import urllib.request
from contextlib import contextmanager
from urllib.parse import quote

import pytest

from testsupport.servers import object_server


@pytest.fixture(scope="session")
def _server(tmp_path_factory):
    with object_server(tmp_path_factory.mktemp("moto") / "log") as url:
        yield url


@pytest.fixture(scope="module")
def endpoint(_server):
    """URL of a server with an empty bucket, for all tests of a module: it has forgotten what others have done."""
    _ask(f"{_server}/moto-api/reset", b"", "POST")
    _ask(f"{_server}/bucket", b"", "PUT")
    return _server


@pytest.fixture
def known_endpoint(endpoint, monkeypatch):
    """The same, which all programs find."""
    for name, value in credentials_of(endpoint).items():
        monkeypatch.setenv(name, value)
    return endpoint


def options_of(url):
    """Return the options by which bbflow's stores find a server and are let in."""
    return {"s3": {"endpoint_url": url, "key": "k", "secret": "s", "region": "us-east-1"}}


def credentials_of(url):
    """Return the variables by which all programs find a server and are let in."""
    names = {"AWS_ENDPOINT_URL": url, "AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s"}
    return names | {"AWS_REGION": "us-east-1"}


@contextmanager
def refusing_keys(url):
    """Make the server refuse all keys, as if they were wrong or had expired, for as long as a ``with``."""
    _allow(url, "0")
    try:
        yield
    finally:
        _allow(url, "inf")


def _allow(url, requests):
    """Set how many requests the server takes from now on without checking their keys."""
    _ask(f"{url}/moto-api/reset-auth", requests.encode(), "POST", {"Content-Type": "text/plain"})


def objects_in(url, prefix=None, bucket="bucket"):
    """Return the objects of a server's bucket as obstore has them."""
    from obstore.store import S3Store  # late: not all that start a server have it

    return S3Store(
        bucket, prefix=prefix, endpoint=url, access_key_id="k", secret_access_key="s", region="us-east-1",
        client_options={"allow_http": True},
    )  # fmt: skip


def put_object(endpoint, key, content=b"", bucket="bucket", **headers):
    """Make an object, whose key may be one that obstore doesn't take; ``x_amz_…`` are headers."""
    kind = {"Content-Type": "application/octet-stream"} | {k.replace("_", "-"): v for k, v in headers.items()}
    _ask(f"{endpoint}/{bucket}/{quote(key)}", content, "PUT", kind)


def _ask(url, content, method, headers=None):
    with urllib.request.urlopen(urllib.request.Request(url, content, headers or {}, method=method), timeout=60):
        pass
