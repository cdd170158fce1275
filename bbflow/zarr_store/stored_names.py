"""What the variables of a stream are called in stores: no name leads out of its store, or to a file of the store."""

import re
from collections.abc import Iterable
from functools import lru_cache
from hashlib import sha256
from unicodedata import normalize

_UNFIT = re.compile(r"[/\\\x00-\x1f\x7f]|^\W|\s$|(?<=^zarr)\.(?=(?:json|new)$)")
"""Separators of paths (zarr takes a backslash for one), control characters, a first sign that NetCDF or a file's name
can't have, and the dot of the files that Zarr and we put beside a store's arrays."""

MOST_BYTES = 200
"""Of a name in UTF-8: file systems take 255 and NetCDF 256, and some names get an ending."""
NETCDF_OWN = frozenset(
    (
        *("_NCProperties", "_Netcdf4Dimid", "_Netcdf4Coordinates", "_nc3_strict", "_IsNetcdf4", "_SuperblockVersion"),
        *("CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST", "_FillValue", "_Storage", "_Format", "_Endianness"),
        *(
            "_ChunkSizes",
            "_DeflateLevel",
            "_Shuffle",
            "_Fletcher32",
            "_NoFill",
            "_Filter",
            "_Codecs",
            "_QuantizeBitGroom",
        ),
    )
)
"""Attributes that NetCDF-4 and HDF5 keep for themselves."""


@lru_cache(1 << 14)
def stored_name(name: str) -> str:
    """Return a variable's name in stores: its own, but for what can't be in one: ``_x2F_`` stands for U+002F, a slash.

    A name that is fit stays as it is, and so does one that was given already. A long one ends in a checksum.
    """
    fit = _UNFIT.sub(lambda found: f"_x{ord(found[0]):02X}_", name)
    if len(fit.encode()) <= MOST_BYTES:
        return fit
    mark = f"_{sha256(name.encode()).hexdigest()[:12]}"
    return fit.encode()[: MOST_BYTES - len(mark)].decode(errors="ignore").rstrip() + mark


def netcdf_attribute(name: str) -> str:
    """Return an attribute's name in NetCDF: as in stores, but none that NetCDF has for itself, and no empty one."""
    fit = stored_name(name) or "_x_"
    return f"_x{ord(fit[0]):02X}_{fit[1:]}" if fit in NETCDF_OWN else fit


def clash(names: Iterable[str]) -> tuple[str, str] | None:
    """Return two names that would be one in stores, such as ``a/b`` and ``a_x2F_b``; None if there are none.

    NetCDF and some file systems take a letter and its accent for the letter with the accent (Unicode's form NFC).
    """
    stored: dict[str, str] = {}
    for name in sorted(names):
        other = stored.setdefault(normalize("NFC", stored_name(name)), name)
        if other != name:
            return other, name
    return None
