"""NetCDF files of grids and weights, as they lie on the disk."""

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bbflow.errors import ConfigError, describe
from bbflow.operators.space.installed import check_installed

if TYPE_CHECKING:
    import xarray as xr

Version = tuple[Path, int, int]
"""A file, when it was changed (nanoseconds) and its bytes: by these is told what was read of it before."""


def version_of(path: Path, what: str) -> Version:
    """Say which file it is.

    Raises
    ------
    ConfigError
        If there is none; the message says what it was to be.
    """
    try:
        status = path.stat()
    except OSError as error:
        raise ConfigError(f"can't read {what} {path}: {describe(error)}") from None
    return path, status.st_mtime_ns, status.st_size


def load(path: Path, what: str, **decoding: Any) -> "xr.Dataset":
    """Return all that a file has.

    Parameters
    ----------
    path
        The file.
    what
        What it is to be, such as 'a file of weights'.
    **decoding
        As in `xarray.open_dataset`.

    Raises
    ------
    ConfigError
        If it can't be read as NetCDF.
    """
    check_installed("netCDF4", what)
    import xarray as xr  # only who remaps waits for it

    try:
        with xr.open_dataset(path, **decoding) as data:
            data.load()
    except (OSError, ValueError, RuntimeError) as error:  # whatever the reader of damaged files raises
        raise ConfigError(f"{path} can't be read as NetCDF ({error}): it is damaged, or not {what}") from None
    return data


@lru_cache(maxsize=16)
def lengths_of(path: Path, _changed: int, _size: int) -> dict[str, int]:
    """Return the lengths of the dimensions of a file, of whose values nothing is read; see `load`."""
    check_installed("netCDF4", "a file of weights")
    import xarray as xr

    try:
        with xr.open_dataset(path, decode_cf=False) as data:
            return {str(name): size for name, size in data.sizes.items()}
    except (OSError, ValueError, RuntimeError) as error:
        raise ConfigError(f"{path} can't be read as NetCDF ({error})") from None
