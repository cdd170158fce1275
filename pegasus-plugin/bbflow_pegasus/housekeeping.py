"""What Pegasus's own jobs do to a staging site beside transfers: files are removed, directories made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bbflow_pegasus.credentials import SiteCredentials
from bbflow_pegasus.requests import TransferPlace, place_of

_PROTOCOLS = {"remove": ("file", "s3", "s3s"), "mkdir": ("file",)}


@dataclass(frozen=True, slots=True)
class Chore:
    """One entry of a list."""

    kind: str
    """``remove`` or ``mkdir``."""
    place: TransferPlace
    """Of the file or directory."""


def chore_of(entry: Mapping[str, Any], environment: Mapping[str, str]) -> Chore | None:
    """Read one entry.

    Parameters
    ----------
    entry
        Of the list.
    environment
        Where variables in local paths are looked up.

    Returns
    -------
    Chore or None
        None if it is something else, or not for bbflow: another protocol, or a whole directory to be removed.
    """
    kind, target = str(entry.get("type")), entry.get("target")
    if kind not in _PROTOCOLS or not isinstance(target, dict) or not {"url", "site_label"} <= target.keys():
        return None
    place = place_of(target, environment)
    if place.protocol not in _PROTOCOLS[kind] or str(target.get("recursive", "False")).lower() == "true":
        return None
    return Chore(kind, place)


def do_chores(chores: Sequence[Chore], credentials: SiteCredentials) -> None:
    """Do all of them; a file that isn't there is removed already, and a directory that is there, made.

    Parameters
    ----------
    chores
        In this order.
    credentials
        For those who remove objects.

    Raises
    ------
    OSError
        If a path can't be removed or made.
    BbflowError
        If an object can't be removed.
    """
    for chore in chores:
        path = Path(chore.place.url)
        if chore.kind == "mkdir":
            path.mkdir(parents=True, exist_ok=True)
        elif chore.place.protocol == "file":
            path.unlink(missing_ok=True)
        else:
            sources, url = credentials.open(chore.place)
            sources.remove(url)
