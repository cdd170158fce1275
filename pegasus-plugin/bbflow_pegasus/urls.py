"""What a URL means that Pegasus wrote, or that a user wrote into its catalogs: the one place where it is decoded.

Pegasus puts logical names into URLs as they are, while users may percent-encode what they write into a catalog. Which
of both it is, the file's logical name tells; where it doesn't, what exists by the name that is written is that.
"""

import os
import re
from collections.abc import Callable, Mapping
from urllib.parse import unquote

from bbflow.errors import ConfigError
from bbflow.stores.urls import HTTP


def is_local(url: str) -> bool:
    """Whether a URL names a file of this host: ``file:…``, or a path."""
    protocol, mark, _ = url.partition(":")
    return not mark or protocol == "file"


def path_of(url: str, environment: Mapping[str, str], lfn: str = "") -> str:
    """Return the path that a local URL means.

    Parameters
    ----------
    url
        ``file:…``, or a path, with ``$VARIABLE`` and ``${VARIABLE}`` in it.
    environment
        Values of the variables.
    lfn
        The file's logical name; empty if it isn't known.

    Raises
    ------
    ConfigError
        If a variable isn't set.
    """
    path = os.path.abspath(_expanded(re.sub(r"^file:(//(localhost)?)?", "", url), environment))
    return _meant(path, lfn, os.path.lexists)


def url_of(url: str, lfn: str = "") -> str:
    """Return the URL by which bbflow knows a file elsewhere: HTTP's stay encoded, in others names are themselves."""
    return url if url.startswith(HTTP) else _meant(url, lfn, lambda _: False, otherwise=url)


def _meant(name: str, lfn: str, exists: Callable[[str], bool], otherwise: str | None = None) -> str:
    decoded = unquote(name)
    both = [name] if decoded == name else [name, decoded]
    fitting = [each for each in both if lfn and f"/{each}".endswith(f"/{lfn}")] or both
    if len(fitting) == 1:
        return fitting[0]
    found = [each for each in fitting if exists(each)] or [each for each in fitting if exists(os.path.dirname(each))]
    return found[0] if found else otherwise or decoded


def _expanded(path: str, environment: Mapping[str, str]) -> str:
    """Put in the values of ``$VARIABLE`` and ``${VARIABLE}``."""

    def value(match: re.Match[str]) -> str:
        name = match.group(1) or match.group(2)
        if name not in environment:
            raise ConfigError(
                f"{path}: the variable {name} isn't set where the transfer runs; set it in the site catalog"
            )
        return environment[name]

    return re.sub(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))", value, path)
