"""Where a run's results go: a directory, one that is copied to a bucket, or a bucket by way of a work directory."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bbflow.errors import ConfigError
from bbflow.reading.sections import read_as, text
from bbflow.units import parse_path


def parse_output(content: Mapping[str, Any], *, dedups: bool) -> tuple[Path, str | None, bool]:
    """Read where results go.

    Parameters
    ----------
    content
        The configuration's keys.
    dedups
        Whether raw steps that repeat are stored once.

    Returns
    -------
    tuple
        The directory; a URL below which the stores are too, or None; and whether that is the output itself.

    Raises
    ------
    ConfigError
        If the keys don't fit together.
    """
    copy_to = None if content.get("copy_to") is None else read_as(_url, content["copy_to"], "copy_to")
    output, work = content.get("output"), content.get("work")
    if not isinstance(output, str) or "://" not in output:
        if work is not None:
            raise ConfigError("'work' is for an output in a bucket: leave it out, or write output: s3://bucket/run1")
        return Path("bbflow-out") if output is None else read_as(parse_path, output, "output"), copy_to, False
    url = read_as(_url, output, "output").rstrip("/")
    if copy_to is not None:
        raise ConfigError("copy_to: the output is in a bucket already: leave out one of them")
    for key in ("netcdf", "publication"):
        if content.get(key):
            raise ConfigError(f"{key}: such files aren't written into a bucket: give an output directory, and copy_to")
    if dedups:
        raise ConfigError("raw: dedup compares with steps that have gone to the bucket: leave it out")
    return work_of(url) if work is None else read_as(parse_path, work, "work"), url, True


def work_of(url: str) -> Path:
    """Return where a run with an output in a bucket has what isn't there yet, unless the configuration says it."""
    return Path("bbflow-work", *url.partition("://")[2].strip("/").split("/"))


def continued_place(value: Any) -> Path:
    """Read what a run continues from; of an output in a bucket the state is in the work directory."""
    return work_of(value) if isinstance(value, str) and "://" in value else parse_path(value)


def _url(value: Any) -> str:
    if not re.fullmatch(r"[a-z0-9]+://[^\s?#]+", text(value)):
        raise ConfigError(f"{value!r} isn't a place for results: write it like s3://bucket/run1")
    return text(value)
