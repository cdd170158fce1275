"""What becomes of a field's values before they are written: mantissa bits are rounded away, and bytes compressed."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Codec = Mapping[str, Any]
"""As it stands in an array's metadata; zarr, which has classes for them, takes a third of a second to import."""
BYTES: Codec = {"name": "bytes", "configuration": {"endian": "little"}}


def codec_of(compression: str, dtype: np.dtype[Any]) -> Codec | None:
    """Return zarr's codec for a kind of compression: none, zstd or blosc."""
    if compression == "zstd":
        return {"name": "zstd", "configuration": {"level": 1, "checksum": False}}
    if compression == "blosc":
        settings = {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": dtype.itemsize, "blocksize": 0}
        return {"name": "blosc", "configuration": settings}
    return None


def encoder_of(codec: Codec) -> Callable[[Array], bytes]:
    """Return what does a codec's work: zstd or blosc."""
    from numcodecs import Blosc, Zstd

    settings = codec["configuration"]
    if codec["name"] == "zstd":
        numcodec = Zstd(settings["level"], settings["checksum"])
    else:
        shuffle = getattr(Blosc, settings["shuffle"].upper())
        numcodec = Blosc(settings["cname"], settings["clevel"], shuffle, settings["blocksize"])
    encode: Callable[[Array], bytes] = numcodec.encode
    return encode


def rounded(values: Array, bits: int, missing: Sequence[float]) -> Array:
    """Round floating-point values to some bits of their mantissa, to the nearest, ties to even; the others become 0.

    The error is at most 2 ** -(bits + 1) of a value. Missing values, NaN, and what is or would be infinite stay as they
    are, and so do values that would be taken for missing ones, and those below the smallest normal number.

    Parameters
    ----------
    values
        Of float16, float32 or float64.
    bits
        Bits that are kept; with all that the type has, or more, nothing changes.
    missing
        What stands for a missing value, in the values' type; besides NaN.

    References
    ----------
    Klöwer et al. (2021), Compressing atmospheric data into its real information content,
    doi:10.1038/s43588-021-00156-2.
    """
    drop = np.finfo(values.dtype).nmant - bits
    if drop <= 0:
        return values
    whole = values.view(f"u{values.dtype.itemsize}")
    one = whole.dtype.type(1)
    half = (one << whole.dtype.type(drop - 1)) - one
    odd = (whole >> whole.dtype.type(drop)) & one
    # A carry may run into the exponent, and is right there: the mantissa is 0 then, of the next power of two.
    new = ((whole + half + odd) & ~((one << whole.dtype.type(drop)) - one)).view(values.dtype)
    stays = ~np.isfinite(new) | (np.abs(values) < np.finfo(values.dtype).tiny)
    for value in missing:
        stays |= (values == value) | (new == value)
    return np.where(stays, values, new)
