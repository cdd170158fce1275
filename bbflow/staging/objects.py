"""S3 through obstore, the only module that imports it: less work a request than s3fs's, and no retries of its own.

Retries belong to the transfer: a client that tries again by itself would read in the middle of a hold.
"""

import configparser
import os
import re
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from bbflow.errors import ConfigError, MissingToolError, SourceError, nearest
from bbflow.staging.facts import Facts, forbidden, missing

OPTIONS = {
    "key": "access_key_id",
    "secret": "secret_access_key",
    "token": "session_token",
    "endpoint_url": "endpoint",
    "region": "region",
    "anon": "skip_signature",
    "virtual_hosted": "virtual_hosted_style_request",
}
"""Names of our options, which are s3fs's where it has one, and obstore's."""
_TIMEOUT_S = 60


class ObjectStore:
    """Reads and writes ``s3://bucket/key``.

    Parameters
    ----------
    options
        Any of `OPTIONS`. What isn't given comes from the environment (``AWS_ACCESS_KEY_ID``,
        ``AWS_ENDPOINT_URL``, ``AWS_REGION``, …), then from ``~/.aws/credentials``.

    Raises
    ------
    ConfigError
        If an option isn't known.
    MissingToolError
        If obstore isn't installed.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        try:
            import obstore
            import obstore.exceptions
            import obstore.store
        except ImportError:
            raise MissingToolError("s3:// needs obstore: pip install 'bbflow[s3]'") from None
        for key in options:
            if key not in OPTIONS:
                raise ConfigError(f"unknown option {key!r} for s3; {nearest(key, OPTIONS)}")
        self._obstore = obstore
        self._options = _credentials() | {OPTIONS[key]: value for key, value in options.items()}
        self._buckets: dict[str, Any] = {}

    def facts(self, url: str) -> Facts:
        """Ask for an object's facts."""
        bucket, key = self._open(url)
        with self._refusals(url):
            head = self._obstore.head(bucket, key)
        version = head["version"] or head["e_tag"] or str(head["last_modified"])
        return Facts(int(head["size"]), version, _md5(url, head["e_tag"]))

    def read(self, url: str, start: int, length_bytes: int) -> bytes:
        """Read a range."""
        bucket, key = self._open(url)
        with self._refusals(url):
            return bytes(self._obstore.get_range(bucket, key, start=start, length=length_bytes))

    @contextmanager
    def create(self, url: str) -> Iterator[Any]:
        """Open an object for writing; it appears whole when the ``with`` ends well, else never."""
        bucket, key = self._open(url)
        with self._refusals(url), self._obstore.open_writer(bucket, key) as writer:
            yield writer

    def etag_is_md5(self, url: str) -> bool:
        """Ask whether an ETag of 32 digits is the MD5: it isn't where a key service, or the user's key, encrypts."""
        bucket, key = self._open(url)
        signed = self._obstore.sign(bucket, "HEAD", key, timedelta(seconds=_TIMEOUT_S))
        request = urllib.request.Request(signed, method="HEAD")
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as reply:
            encryption = reply.headers.get("x-amz-server-side-encryption", "AES256")
            customer = reply.headers.get("x-amz-server-side-encryption-customer-algorithm")
        return encryption == "AES256" and customer is None

    def _open(self, url: str) -> tuple[Any, str]:
        bucket, _, key = url.partition("://")[2].partition("/")
        if not (bucket and key):
            raise ConfigError(f"{url} names no object: write it like s3://bucket/key")
        if bucket not in self._buckets:
            self._buckets[bucket] = self._obstore.store.S3Store(
                bucket,
                **self._options,
                client_options={"allow_http": True, "timeout": f"{_TIMEOUT_S}s"},
                retry_config={"max_retries": 0},
            )
        return self._buckets[bucket], key

    @contextmanager
    def _refusals(self, url: str) -> Iterator[None]:
        """Turn what trying again wouldn't help into a `SourceError`; the rest stays as it is."""
        errors = self._obstore.exceptions
        try:
            yield
        except (FileNotFoundError, errors.NotFoundError) as error:
            raise missing(url) from error
        except (errors.PermissionDeniedError, errors.UnauthenticatedError) as error:
            raise forbidden(url) from error
        except (errors.InvalidPathError, errors.NotSupportedError) as error:
            raise SourceError(f"{url} can't be used: {' '.join(str(error).split())[:200]}") from error


def _md5(url: str, etag: str | None) -> str | None:
    digits = (etag or "").strip('"')
    express = url.partition("://")[2].partition("/")[0].endswith("--x-s3")
    return f"md5:{digits}" if re.fullmatch(r"[0-9a-f]{32}", digits) and not express else None


def _credentials() -> dict[str, Any]:
    """Read static credentials of the user's profile, unless the environment has some."""
    if "AWS_ACCESS_KEY_ID" in os.environ:
        return {}
    path = Path(os.environ.get("AWS_SHARED_CREDENTIALS_FILE", Path.home() / ".aws" / "credentials"))
    profile = os.environ.get("AWS_PROFILE", "default")
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read(path)
        section = parser[profile]
    except configparser.Error as error:
        raise ConfigError(f"{path} can't be read: {error}") from None
    except KeyError:
        return {}
    names = {"aws_access_key_id": "access_key_id", "aws_secret_access_key": "secret_access_key"}
    names["aws_session_token"] = "session_token"
    return {names[key]: value for key, value in section.items() if key in names}
