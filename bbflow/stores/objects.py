"""S3 through obstore, the only module that imports it: less work a request than s3fs's, and no retries of its own.

Retries belong to the transfer: a client that tries again by itself would read in the middle of a hold.
"""

import configparser
import io
import os
import re
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from bbflow.errors import (
    ConfigError,
    ConflictError,
    MissingSourceError,
    MissingToolError,
    SourceError,
    nearest,
)
from bbflow.host.atomic import beside
from bbflow.stores.facts import (
    TIMEOUT_S,
    Arriving,
    Expected,
    Facts,
    Listed,
    Reader,
    changed,
    conflict,
    forbidden,
    missing,
    outdated,
)
from bbflow.stores.parts import Method, Upload
from bbflow.stores.s3_answers import absence, answer, archived, bucket_missing, bucket_of, refusal
from bbflow.stores.s3_keys import list_keys
from bbflow.stores.urls import below

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
PAGE = 1000
"""Objects that a request lists at most, as S3 has it."""
LEAST_FOR_LISTING = 10
"""Objects for whose sizes a page is listed: below that, each is asked for."""
_ENDPOINT = re.compile(r"https?://([\w.-]+|\[[\da-f:.]+\])(:\d{1,5})?(/\S*)?", re.ASCII | re.IGNORECASE)
_BUCKET = re.compile(r"[\w.-]+", re.ASCII)
"""What isn't like these ends obstore by a panic, which is no exception."""
_NO_KEY = re.compile(r"[\x00-\x1f\x7f]|(^|/)\.{0,2}(/|$)")
"""What is in no key that obstore takes: control characters, and names that are empty or mean a directory."""
MOST_PARTS = 10_000
"""S3 takes no more of one upload."""
# S3 takes no parts below 5 MiB but the last.
LEAST_PART_BYTES = 10 << 20
IN_MEMORY_BYTES = 12 * LEAST_PART_BYTES
LONGEST_S = IN_MEMORY_BYTES // 200_000
"""How long a request takes at most that moves bytes, however many others share the way."""


class ObjectStore:
    """Reads and writes ``s3://bucket/key``.

    Parameters
    ----------
    options
        Any of `OPTIONS`. What isn't given comes from the environment (``AWS_ACCESS_KEY_ID``,
        ``AWS_ENDPOINT_URL``, ``AWS_REGION``, …), then from ``~/.aws/credentials``.
    timeout_s
        How long nothing may be heard of a request, in whole seconds.

    Raises
    ------
    ConfigError
        If an option isn't known, or the endpoint isn't a URL.
    MissingToolError
        If obstore isn't installed.
    """

    def __init__(self, options: Mapping[str, Any], *, timeout_s: int = TIMEOUT_S) -> None:
        try:
            import obstore
            import obstore.exceptions
            import obstore.store
        except ImportError:
            raise MissingToolError("s3:// needs obstore: pip install 'bbflow[s3]'") from None
        for key in options:
            if key not in OPTIONS:
                raise ConfigError(f"unknown option {key!r} for s3; {nearest(key, OPTIONS)}")
        self._obstore, self._timeout_s = obstore, timeout_s
        self._options = _credentials() | {OPTIONS[key]: value for key, value in options.items()}
        endpoint = self._options.get("endpoint") or os.environ.get("AWS_ENDPOINT_URL") or os.environ.get("AWS_ENDPOINT")
        # obstore panics at some, which no `except` catches.
        if endpoint and not _ENDPOINT.fullmatch(endpoint):
            raise ConfigError(
                f"{endpoint!r} isn't an endpoint of S3: write AWS_ENDPOINT_URL like http://127.0.0.1:9000"
            )
        self._buckets: dict[tuple[str, bool], Any] = {}
        self._weak: dict[str, str] = {}

    def facts(self, url: str) -> Facts:
        """Ask for an object's facts."""
        bucket, key = self._open(url)
        with self._refusals(url):
            return _facts(url, self._obstore.head(bucket, key))

    @contextmanager
    def open(self, url: str, facts: Facts) -> Iterator[Reader]:
        """Open an object for reading in ranges."""
        yield Reader(lambda start, length: self.read(url, start, length, facts.version))

    def read(self, url: str, start: int, length_bytes: int, version: str | None) -> bytes:
        """Read a range of a version, if that is known."""
        bucket, key = self._open(url)
        with self._refusals(url):
            reply = self._obstore.get(bucket, key, options={"range": (start, start + length_bytes)})
            if version not in (None, _version(reply.meta)):
                raise outdated(url)
            return bytes(reply.bytes())

    def whole(self, url: str, most_bytes: int) -> tuple[Facts, bytes] | None:
        """Read a small object and its facts by one request."""
        bucket, key = self._open(url)
        with self._refusals(url):
            reply = self._obstore.get(bucket, key)
            facts = _facts(url, reply.meta)
            return (facts, bytes(reply.bytes())) if facts.size_bytes <= most_bytes else None

    @contextmanager
    def create(self, url: str, size_bytes: int, over: Expected | None = None) -> Iterator[Any]:
        """Open an object of this many bytes for writing; it appears whole when the ``with`` ends well, else never.

        An object of several parts is looked at just before they become one, too: not all servers that heed conditions
        have one for that.
        """
        part, at_once = upload_parts(size_bytes)
        in_parts = size_bytes > part
        bucket, key = self._open(url, in_parts=in_parts)
        if over is not None and not self.weakness(url):
            with self._joined(url, over, size_bytes) if in_parts else self._at_once(url, over) as target:
                yield target
            return
        writing = self._obstore.open_writer(bucket, key, buffer_size=part, max_concurrency=at_once)
        with self._refusals(url), writing as writer:
            yield writer if over is None else Arriving(writer)
            if over is not None:
                over.check(url, self._facts_or_none(url))

    @contextmanager
    def _at_once(self, url: str, over: Expected) -> Iterator[Any]:
        content = io.BytesIO()
        target = Arriving(content)
        yield target
        target.facts = self._put(url, content.getvalue(), over)

    @contextmanager
    def _joined(self, url: str, over: Expected, size_bytes: int) -> Iterator[Any]:
        upload = Upload(partial(self._request, url), *upload_parts(size_bytes))
        try:
            target = Arriving(upload)
            yield target
            over.check(url, self._facts_or_none(url))
            try:
                version = upload.finish({"If-None-Match": "*"} if over.facts is None else {"If-Match": _tag(over)})
                target.facts = _made(size_bytes, version)
            except MissingSourceError as error:  # what was to be replaced has gone
                raise conflict(url) from error
        except BaseException:
            # S3 keeps, and bills, parts of an upload that is neither joined nor dropped.
            upload.drop()
            raise

    def _put(self, url: str, content: bytes, over: Expected, attributes: Any = None) -> Facts | None:
        """Write an object by one request, whose condition the server checks; return what it is, if that is told."""
        bucket, key = self._open(url)
        mode: Any = "create" if over.facts is None else {"e_tag": over.facts[1]}
        errors = self._obstore.exceptions
        with self._refusals(url):
            try:
                made = self._obstore.put(bucket, key, content, mode=mode, attributes=attributes, use_multipart=False)
            except (errors.AlreadyExistsError, errors.PreconditionError) as error:
                raise conflict(url) from error
        return _made(len(content), made["e_tag"])

    def _facts_or_none(self, url: str) -> Facts | None:
        with suppress(MissingSourceError):
            return self.facts(url)
        return None

    def weakness(self, url: str) -> str:
        """Try, once for each bucket, whether its server heeds conditions, and say so if it doesn't."""
        bucket = bucket_of(url)
        if bucket not in self._weak:
            # Random, so that it is no one's object, and hidden, so that listings leave it out.
            trial = beside(Path(f"{os.urandom(8).hex()}.bbflow-conditions"))
            try:
                self._weak[bucket] = self._try_conditions(below(url.rpartition("/")[0], trial.name))
            except SourceError:  # whoever tries to write is told why
                return "its S3 server refuses to try that"
        return self._weak[bucket]

    def _try_conditions(self, url: str) -> str:
        """Return which condition a server has ignored, or doesn't know."""
        other = Expected((1, '"0123456789abcdef0123456789abcdef"'))
        store, key = self._open(url)
        with self._refusals(url):
            self._obstore.put(store, key, b"x")
        try:
            for over in (Expected(None), other):
                with suppress(ConflictError):
                    self._put(url, b"x", over)
                    return "its S3 server ignores the conditions of a PUT"
            with suppress(ConflictError):
                self._delete(url, other)
                return "its S3 server ignores the condition of a DELETE"
        except SourceError:  # what it doesn't know it may refuse, too
            return "its S3 server knows no conditions"
        finally:
            self.remove(url)
        return ""

    def children(self, url: str) -> tuple[list[Listed], list[str]]:
        """List what is directly below a prefix."""
        bucket, key = self._open(url, needs_key=False)
        with self._refusals(url):
            found = None
            with suppress(self._obstore.exceptions.InvalidPathError):
                found = self._obstore.list_with_delimiter(bucket, key or None)
            if found is None or "" in found["common_prefixes"]:
                pages = list(self._keys(url, delimiter="/"))
                return [file for files, _ in pages for file in files], [name for _, names in pages for name in names]
        names = [prefix.rstrip("/").rpartition("/")[2] for prefix in found["common_prefixes"]]
        return [file for meta in found["objects"] if (file := _listed(url, key, meta)).name], names

    def tree(self, url: str, *, directories: bool = False) -> Iterator[Listed]:
        """List all objects below a prefix, 1,000 a request; one whose key ends in ``/`` is only a directory's mark."""
        empty: list[Listed] = []
        for file in self._below(url):
            if empty and file.name.startswith(f"{empty[-1].name}/"):
                empty.pop()
            if file.size_bytes or not file.is_usable:
                yield file
            else:
                empty.append(file)
        yield from self._told_apart(url, empty, directories=directories)

    def _told_apart(self, url: str, empty: list[Listed], *, directories: bool) -> Iterator[Listed]:
        """Look in their directories which empty objects are files: obstore tells keys without a ``/`` at their end."""
        by_directory: dict[str, list[Listed]] = {}
        for file in empty:
            by_directory.setdefault(file.name.rpartition("/")[0], []).append(file)
        for directory, files in by_directory.items():
            there = {file.name for file in self.children(f"{url.rstrip('/')}/{directory}")[0]}
            for file in files:
                if file.name.rpartition("/")[2] in there:
                    yield file
                elif directories:
                    yield replace(file, is_directory=True)

    def _below(self, url: str) -> Iterator[Listed]:
        bucket, key = self._open(url, needs_key=False)
        last = ""
        with self._refusals(url):
            try:
                for page in self._obstore.list(bucket, key or None, chunk_size=PAGE):
                    yield from (file for meta in page if (file := _listed(url, key, meta)).name)
                    last = page[-1]["path"]
            except self._obstore.exceptions.InvalidPathError:
                for files, _ in self._keys(url, after=last):
                    yield from files

    def _keys(self, url: str, delimiter: str = "", after: str = "") -> Iterator[tuple[list[Listed], list[str]]]:
        """List objects, and names before a delimiter, without obstore; those that are no paths are told of as files."""
        bucket, key = url.partition("://")[2].rstrip("/").partition("/")[::2]
        before = f"{key}/" if key else ""
        for objects, prefixes in list_keys(partial(self._sign, bucket), before, delimiter=delimiter, after=after):
            files = [_named(url, meta["path"].removeprefix(before), meta) for meta in objects]
            names = [prefix.removeprefix(before).removesuffix("/") for prefix in prefixes]
            odd = [f"{before}{name}/" for name in names if _is_odd(name)]
            inside = [meta for prefix in odd for meta in next(list_keys(partial(self._sign, bucket), prefix))[0]]
            files += [_named(url, meta["path"].removeprefix(before), meta) for meta in inside]
            yield [file for file in files if not _is_mark(file)], [name for name in names if not _is_odd(name)]

    def _sign(self, bucket: str, query: Mapping[str, str], key: str = "", method: Method = "GET") -> str:
        """Return the URL of a query: obstore signs only keys, so the query stands at the endpoint's end."""
        seconds = timedelta(seconds=LONGEST_S)
        anybody = self._store(bucket, access_key_id="-", secret_access_key="-")  # its key is only to have the URL
        where = self._obstore.sign(anybody, "GET", key or "-", seconds).partition("?")[0]
        where = where if key else where.removesuffix("/-")
        endpoint = f"{where}?{urlencode(query, quote_via=quote, safe='')}"
        if self._options.get("skip_signature"):
            return endpoint
        # Of a virtual host obstore takes the endpoint as it stands and puts a slash behind it: that is the value of
        # `x-id`: S3 takes no notice of that parameter.
        asked = self._store(bucket, endpoint=f"{endpoint}&x-id=", virtual_hosted_style_request=True)
        return str(self._obstore.sign(asked, method, "", seconds))

    def remove(self, url: str, known: Expected | None = None) -> None:
        """Remove an object."""
        with suppress(MissingSourceError), self._refusals(url):
            if known is None:
                self._obstore.delete(*self._open(url))
            elif self.weakness(url):
                known.check(url, self.facts(url))
                self._obstore.delete(*self._open(url))
            else:
                self._delete(url, known)

    def _delete(self, url: str, known: Expected) -> None:
        with suppress(MissingSourceError):
            self._request(url, "DELETE", {}, b"", {"If-Match": _tag(known)})

    def _request(
        self, url: str, method: Method, query: Mapping[str, str], content: bytes, headers: Mapping[str, str]
    ) -> tuple[bytes, Mapping[str, str]]:
        """Ask for what obstore can't: with a query, or with a condition, which isn't signed.

        Raises
        ------
        ConflictError
            If the condition doesn't hold.
        """
        bucket, key = self._open(url)
        if query:
            signed = self._sign(bucket_of(url), query, key, method)
        else:
            signed = self._obstore.sign(bucket, method, key, timedelta(seconds=self._timeout_s))
        kind = {"Content-Type": "application/octet-stream"} if content else {}
        request = urllib.request.Request(signed, content or None, {**kind, **headers}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=LONGEST_S if content else self._timeout_s) as reply:
                return reply.read(), reply.headers
        except urllib.error.HTTPError as error:
            with error:
                if error.code == 412:
                    raise conflict(url) from error
                # Two have written at the same time, or an upload in parts has been dropped: trying again helps.
                if error.code == 409 or b"NoSuchUpload" in (told := error.read()):
                    raise OSError(f"the S3 server says {error.code}: {error.reason}") from error
                if error.code == 404 and b"NoSuchBucket" not in told:
                    raise missing(url) from error
                raise refusal(url, error.code, error.reason) from error
        except HTTPException as error:
            raise OSError(f"the S3 server's answer was cut off: {error!r}") from error

    def move(self, url: str, to: str, known: Expected, over: Expected) -> Facts | None:
        """Copy an object within its bucket, and remove it under its old name.

        obstore has no condition for a copy: what is small is read and written, each with its condition; what isn't is
        looked at before and after.
        """
        (bucket, key), (_, new) = self._open(url), self._open(to)
        self._check(url, known)
        if known.facts and known.facts[0] <= LEAST_PART_BYTES and not self.weakness(to):
            content, attributes = self._content(url, known)
            made = self._put(to, content, over, attributes)
        else:
            made = None
            over.check(to, self._facts_or_none(to))
            with self._refusals(url):
                self._obstore.copy(bucket, key, new)
            try:
                self._check(url, known)
            except SourceError:
                self.remove(to)  # it may be of what someone else has written
                raise
        with suppress(ConflictError):  # someone has written another one since, which stays
            self.remove(url, known)
        return made

    def _check(self, url: str, known: Expected) -> None:
        try:
            known.check(url, self.facts(url))
        except ConflictError as error:
            raise changed(url) from error

    def _content(self, url: str, known: Expected) -> tuple[bytes, Any]:
        """Read a small object as it is known, with its attributes."""
        bucket, key = self._open(url)
        with self._refusals(url):
            try:
                reply = self._obstore.get(bucket, key, options={"if_match": _tag(known)})
            except self._obstore.exceptions.PreconditionError as error:
                raise changed(url) from error
            return bytes(reply.bytes()), reply.attributes

    def clear(self, url: str) -> bool:
        """Do nothing: a key is in no other's way."""
        return False

    def sizes(self, urls: list[str]) -> dict[str, int]:
        """List where many of some objects are: a page has 1,000."""
        by_prefix: dict[str, list[str]] = {}
        for url in urls:
            by_prefix.setdefault(url.rpartition("/")[0], []).append(url)
        found: dict[str, int] = {}
        for prefix, wanted in by_prefix.items():
            if len(wanted) >= LEAST_FOR_LISTING:
                found |= self._sizes_below(prefix, sorted(wanted))
        return found

    def _sizes_below(self, prefix: str, wanted: list[str]) -> dict[str, int]:
        """Iterate over a listing while it has more of what is wanted than asking would have brought."""
        bucket, key = self._open(prefix, needs_key=False)
        unknown, found = set(wanted), dict[str, int]()
        # A listing begins behind its offset: a name that is shorter by a character comes before the one that is wanted.
        before = f"{key}/{wanted[0].rpartition('/')[2][:-1]}".strip("/")
        with self._refusals(prefix):
            for page in self._obstore.list(bucket, key or None, offset=before or None, chunk_size=PAGE):
                listed = {_listed(prefix, key, meta).url: int(meta["size"]) for meta in page}
                hits = unknown & listed.keys()
                found |= {url: listed[url] for url in hits}
                unknown -= hits
                if not unknown or len(hits) < LEAST_FOR_LISTING:
                    break
        return found

    def disproves(self, url: str) -> bool:
        """Ask whether an ETag of 32 digits is the MD5: it isn't where a key service, or the user's key, encrypts."""
        bucket, key = self._open(url)
        signed = self._obstore.sign(bucket, "HEAD", key, timedelta(seconds=self._timeout_s))
        request = urllib.request.Request(signed, method="HEAD")
        with urllib.request.urlopen(request, timeout=self._timeout_s) as reply:
            encryption = reply.headers.get("x-amz-server-side-encryption", "AES256")
            customer = reply.headers.get("x-amz-server-side-encryption-customer-algorithm")
        return encryption == "AES256" and customer is None

    def _open(self, url: str, needs_key: bool = True, in_parts: bool = False) -> tuple[Any, str]:
        bucket, _, key = url.partition("://")[2].partition("/")
        if not _BUCKET.fullmatch(bucket) or (needs_key and not key):
            raise ConfigError(f"{url} names no object: write it like s3://bucket/key")
        names = key if needs_key else key.rstrip("/")
        if names and _NO_KEY.search(names):
            raise MissingSourceError(f"{url!r} can't be there: keys with control characters, '//' or '..' are none")
        if (bucket, in_parts) not in self._buckets:
            self._buckets[bucket, in_parts] = self._store(bucket, in_parts)
        return self._buckets[bucket, in_parts], key

    def _store(self, bucket: str, in_parts: bool = False, **options: Any) -> Any:
        # Of a part on its way nothing is heard until all of it is there, and the others take their share of the way.
        silence_s = LONGEST_S if in_parts else self._timeout_s
        return self._obstore.store.S3Store(
            bucket,
            **self._options | options,
            client_options={"allow_http": True, "timeout": f"{LONGEST_S}s", "read_timeout": f"{silence_s}s"},
            retry_config={"max_retries": 0},
        )

    @contextmanager
    def _refusals(self, url: str) -> Iterator[None]:
        """Turn what trying again wouldn't help into a `SourceError`, and a server that isn't there into an `OSError`.

        obstore tells of the latter only in words, with pages of details behind them.
        """
        errors = self._obstore.exceptions
        try:
            yield
        except (FileNotFoundError, errors.NotFoundError) as error:
            raise (bucket_missing(url, error) or missing(url)) from error
        except (errors.PermissionDeniedError, errors.UnauthenticatedError) as error:
            raise (archived(url, error) or forbidden(url)) from error
        except (errors.InvalidPathError, errors.NotSupportedError) as error:
            raise SourceError(f"{url} can't be used: {' '.join(str(error).split())[:200]}") from error
        except (OSError, errors.GenericError) as error:
            if known := bucket_missing(url, error) or archived(url, error):
                raise known from error
            if absent := absence(str(error)):
                raise absent from None
            if (found := answer(str(error))) is None:
                raise
            raise refusal(url, *found) from None


def _made(size_bytes: int, version: str | None) -> Facts | None:
    """Return what a server tells of an object that it has taken, if it names the version as later answers do."""
    return Facts(size_bytes, version) if version and version.endswith('"') else None


def upload_parts(size_bytes: int) -> tuple[int, int]:
    """Return the bytes of each part of an upload, and how many go at once: these are held in memory.

    An object has at most 10,000 parts (Amazon S3 User Guide, "Amazon S3 multipart upload limits").
    """
    part = max(LEAST_PART_BYTES, -(-size_bytes // MOST_PARTS))
    return part, max(IN_MEMORY_BYTES // part, 1)


def _facts(url: str, meta: Mapping[str, Any]) -> Facts:
    changed_s = meta["last_modified"].timestamp()
    return Facts(int(meta["size"]), _version(meta), _md5(url, meta["e_tag"]), changed_s=changed_s)


def _version(meta: Mapping[str, Any]) -> str:
    # Not the version's number: listings don't tell it, and conditions don't ask for it.
    return str(meta["e_tag"] or meta["last_modified"])


def _tag(known: Expected) -> str:
    return known.facts[1] if known.facts else ""


def _listed(url: str, prefix: str, meta: Mapping[str, Any]) -> Listed:
    return _named(url, meta["path"].removeprefix(prefix.rstrip("/")).lstrip("/"), meta)


def _named(url: str, name: str, meta: Mapping[str, Any]) -> Listed:
    changed_s = meta["last_modified"].timestamp()
    whole = f"{url.rstrip('/')}/{name}"
    return Listed(whole, name, int(meta["size"]), _version(meta), changed_s, not _is_odd(name))


def _is_odd(name: str) -> bool:
    """Whether no path is like what follows a directory's in a key."""
    return _NO_KEY.search(name) is not None


def _is_mark(file: Listed) -> bool:
    """Whether an empty object only says that there is a directory."""
    return not file.size_bytes and not file.is_usable and not _is_odd(file.name.removesuffix("/") or "-")


def _md5(url: str, etag: str | None) -> str | None:
    digits = (etag or "").strip('"')
    express = url.partition("://")[2].partition("/")[0].endswith("--x-s3")
    return f"md5:{digits}" if re.fullmatch(r"[0-9a-f]{32}", digits) and not express else None


def _credentials() -> dict[str, Any]:
    """Read static credentials of the user's profile, unless the environment has some."""
    # obstore reads the environment by itself, but no profiles.
    if "AWS_ACCESS_KEY_ID" in os.environ:
        return {}
    # In a container a user may have no home: then there are none.
    path = os.path.expanduser(os.environ.get("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials"))
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
