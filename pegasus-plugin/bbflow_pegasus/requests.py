"""What Pegasus asks a transfer job for: the JSON list on its standard input."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bbflow.errors import ConfigError
from bbflow.staging.checksums import ALGORITHMS
from bbflow_pegasus.urls import is_local, path_of, url_of

SOURCES = ("file", "http", "https", "s3", "s3s")
"""Protocols that bbflow reads itself."""
TARGETS = ("file", "s3", "s3s")
"""Protocols that bbflow writes itself."""


@dataclass(frozen=True, slots=True)
class TransferPlace:
    """A file at a site."""

    url: str
    """A path for local files, with its variables expanded; decoded, but for HTTP."""
    site: str
    """Name of the site."""
    protocol: str
    """Such as ``file`` or ``s3``."""
    priority: int = 0
    """Of a source; the highest is tried first."""


@dataclass(frozen=True, slots=True)
class Request:
    """One file to be staged in."""

    lfn: str
    """Its logical name."""
    sources: tuple[TransferPlace, ...]
    """Its replicas, in the order in which they are tried."""
    target: TransferPlace
    """Where to."""
    size_bytes: int | None = None
    """As the replica catalog says."""
    checksum: str | None = None
    """Such as ``sha256:…``, as the replica catalog says."""
    generate_checksum: bool = False
    """Whether Pegasus wants to know its checksum."""


def read_entries(text: str) -> list[dict[str, Any]]:
    """Read the list.

    Raises
    ------
    ConfigError
        If it isn't JSON list of objects.
    """
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"the transfer list isn't JSON: {error}") from None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ConfigError("the transfer list must be a JSON list of objects, as Pegasus writes it")
    return entries


def request_of(entry: Mapping[str, Any], environment: Mapping[str, str]) -> Request | None:
    """Read one entry.

    Parameters
    ----------
    entry
        Of the list.
    environment
        Where variables in local paths are looked up.

    Returns
    -------
    Request or None
        None if it is not for bbflow: another protocol, a container, a link, a check after a stage-out.

    Raises
    ------
    ConfigError
        If a variable of a local path isn't set, or something is missing in the entry.
    """
    if entry.get("type") != "transfer" or entry.get("verify_checksum_remote"):
        return None
    try:
        lfn = str(entry.get("lfn", ""))
        sources = [place_of(each, environment, lfn) for each in entry["src_urls"]]
        targets = [place_of(each, environment, lfn) for each in entry["dest_urls"]]
        attributes = dict(entry.get("attributes", {}))
    except (KeyError, TypeError, ValueError):
        raise ConfigError(f"an entry of the transfer list isn't as Pegasus writes it: {json.dumps(entry)}") from None
    if len(targets) != 1 or not sources or any("type" in each for each in (*entry["src_urls"], *entry["dest_urls"])):
        return None
    if not _is_ours(sources, targets[0]):
        return None
    return Request(
        lfn=lfn,
        sources=tuple(sorted(sources, key=lambda place: -place.priority)),
        target=targets[0],
        size_bytes=_size(attributes.get("size")),
        checksum=_checksum(attributes),
        generate_checksum=bool(entry.get("generate_checksum")),
    )


def distinct(requests: Sequence[Request]) -> list[Request]:
    """Return each request once.

    Raises
    ------
    ConfigError
        If two have one target: whichever came last would count.
    """
    by_target: dict[str, Request] = {}
    for request in requests:
        first = by_target.setdefault(request.target.url, request)
        if first != request:
            raise ConfigError(
                f"{request.target.url} is the target of two transfers, from {first.sources[0].url} and "
                f"{request.sources[0].url}: give the files names of their own"
            )
    return list(by_target.values())


def _is_ours(sources: list[TransferPlace], target: TransferPlace) -> bool:
    if target.protocol not in TARGETS or any(place.protocol not in SOURCES for place in sources):
        return False
    return target.protocol == "file" or all(place.protocol == "file" for place in sources)


def place_of(content: Mapping[str, Any], environment: Mapping[str, str], lfn: str = "") -> TransferPlace:
    """Read where a file is, as an entry says it, whose logical name is `lfn` if it says that too."""
    url, site, priority = str(content["url"]), str(content["site_label"]), int(content.get("priority", 0))
    if is_local(url):
        return TransferPlace(path_of(url, environment, lfn), site, "file", priority)
    return TransferPlace(url_of(url, lfn), site, url.partition(":")[0], priority)


def _size(text: object) -> int | None:
    return int(str(text)) if str(text).isdigit() else None


def _checksum(attributes: Mapping[str, Any]) -> str | None:
    """Return a file's known checksum; a kind that bbflow doesn't compute is left to Pegasus."""
    kind, value = str(attributes.get("checksum.type", "sha256")), attributes.get("checksum.value")
    return f"{kind}:{value}" if value and kind in ALGORITHMS else None
