"""What servers of S3 say where a request fails, and what it means: their words are XML behind obstore's own."""

import re

from bbflow.errors import MissingSourceError, SourceError
from bbflow.stores.facts import forbidden, impossible, outdated

_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
"""What Amazon takes as a bucket's name ("Bucket naming rules"); other servers, and old buckets, have others too."""
_NO_ANSWER = re.compile(
    r"Error performing \w+ (https?://[^/\s]+).*? in (?:(\d+)\.\d*s\b)?.*error sending request", re.DOTALL
)
_ANSWER = re.compile(r"status code: (\d{3}) ?([\w ]*)")
_TOLD = re.compile(r"<Code>([^<]*)</Code>(?:.*?<Message>([^<]*)</Message>)?", re.DOTALL)
_STORAGE_CLASS = re.compile(r"<(?:StorageClass|AccessTier)>(\w+)</")
_SILENCE = re.compile(r"kind: Timeout,(?!.*ConnectError)", re.DOTALL)
"""What obstore says, in its details only, where a server that has let a request in says nothing more."""
_ROLES = "//169.254.169.254/"
"""Where hosts of a cloud ask for their role's keys, which is done where no others are given."""


def answer(words: str) -> tuple[int, str] | None:
    """Return the status with which a server refused, and its reason without the XML around it; None if it didn't."""
    if (found := _ANSWER.search(words)) is None:
        return None
    told = _TOLD.search(words)
    reason = ": ".join(filter(None, told.groups())) if told else found[2].strip()
    return int(found[1]), reason


def refusal(url: str, status: int, reason: str) -> Exception:
    """Return the error for what a server refused; one that may pass is an `OSError`."""
    if status in (401, 403):  # what ends a writer gives isn't a PermissionDeniedError
        return forbidden(url)
    if status == 416:
        return outdated(url)
    if reason.startswith("InvalidBucketName") or (status == 400 and not _NAME.fullmatch(bucket_of(url))):
        rule = "which has 3 to 63 of a-z, 0-9, '-' and '.'"
        return MissingSourceError(f"{url}: {bucket_of(url)!r} can't be a bucket's name, {rule}: check the URL")
    return impossible(url, OSError(reason), status) or OSError(f"the S3 server says {status}: {reason}")


def bucket_of(url: str) -> str:
    """Return the bucket's name."""
    return url.partition("://")[2].partition("/")[0]


def bucket_missing(url: str, error: Exception) -> SourceError | None:
    """Return the error of a bucket that isn't there; None if it is another one."""
    if "<Code>NoSuchBucket</Code>" not in str(error):
        return None
    return MissingSourceError(f"{url}: there is no bucket {bucket_of(url)!r}: make it, or check the URL")


def archived(url: str, error: Exception) -> SourceError | None:
    """Return the error of an object that must be restored first; None if it is another one."""
    if "<Code>InvalidObjectState</Code>" not in str(error):
        return None
    found = _STORAGE_CLASS.search(str(error))
    kind = f" ({found[1]})" if found else ""
    return SourceError(
        f"{url} is archived{kind}: restore it first, as by 'aws s3api restore-object', and wait for that"
    )


def absence(words: str) -> OSError | None:
    """Return the error of a request that lacks keys or an answer, with what to do; None if it failed otherwise."""
    if _ROLES in words:
        return ConnectionError("no keys, and no role of this host: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
    found = _NO_ANSWER.search(words)
    if _SILENCE.search(words):
        silence = f"at {found[1]} gave no answer in {found[2]} s" if found else "stopped within its answer"
        return TimeoutError(f"the S3 server {silence}: it hangs, or the way there is too slow")
    if found:
        return ConnectionError(f"no S3 server answers at {found[1]}: start it, or name another in AWS_ENDPOINT_URL")
    return None
