"""What the variables of a stream are called in stores: no name leads out of its store, or to a file of the store."""

import re
from collections.abc import Iterable

_UNFIT = re.compile(r"[/\x00-\x1f\x7f]|^\W|\s$|(?<=^zarr)\.(?=(?:json|new)$)")
"""Separators of paths, control characters, a first sign that NetCDF or a file's name can't have, and the dot of the
files that Zarr and we put beside a store's arrays."""


def stored_name(name: str) -> str:
    """Give a variable's name in stores: its own, but for what can't be in one: ``_x2F_`` stands for U+002F, a slash.

    A name that is fit stays as it is, and so does one that was given already.
    """
    return _UNFIT.sub(lambda found: f"_x{ord(found[0]):02X}_", name)


def clash(names: Iterable[str]) -> tuple[str, str] | None:
    """Give two names that would be one in stores, such as ``a/b`` and ``a_x2F_b``; None if there are none."""
    stored: dict[str, str] = {}
    for name in sorted(names):
        other = stored.setdefault(stored_name(name), name)
        if other != name:
            return other, name
    return None
