"""NetCDF files of grids and weights, as they lie on the disk."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bbflow.errors import ConfigError
from bbflow.operators.space.classic_files import bytes_of
from bbflow.operators.space.installed import check_installed

if TYPE_CHECKING:
    import xarray as xr

Version = tuple[Path, int, int]
"""A file, when it was changed (nanoseconds) and its bytes: by these is told what was read of it before."""


def version_of(path: Path, what: str) -> Version:
    """Return which file it is.

    Raises
    ------
    ConfigError
        If there is none; the message says what it was to be.
    """
    try:
        status = path.stat()
    except OSError as error:
        named = "" if path.suffix else ", and that isn't a name of a grid: these are r360x180, n32, hp512 and hpz9"
        raise ConfigError(f"can't read {what} {path}: {error.strerror}{named}") from None
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
    with opened(path, what, **decoding) as data:
        return data.load()


@lru_cache(maxsize=16)
def header_of(path: Path, _changed: int, _size: int) -> tuple[dict[str, int], dict[str, Any]]:
    """Return the lengths of dimensions and the attributes of a file of weights, without its values; see `load`."""
    with opened(path, "a file of weights", decode_cf=False) as data:
        return {str(name): size for name, size in data.sizes.items()}, data.attrs


@contextmanager
def opened(path: Path, what: str, **decoding: Any) -> Iterator["xr.Dataset"]:
    """Open a file without reading its values; as `load`."""
    check_installed("netCDF4", what)
    import xarray as xr  # only who remaps waits for it

    try:
        size, whole = path.stat().st_size, bytes_of(path)
        if not size:
            raise ConfigError(f"{path} is empty: copy or make it again")
        if whole is not None and size < whole:  # the NetCDF library reads zeros beyond the end
            raise ConfigError(f"{path} has {size} of {whole} bytes, so it isn't whole: copy or make it again")
        with xr.open_dataset(path, **decoding) as data:
            yield data
    except (OSError, ValueError, RuntimeError) as error:  # whatever the reader of damaged files raises
        told = str(error).partition("\n")[0].partition(". Consider")[0]
        raise ConfigError(f"{path} can't be read as NetCDF ({told}): it is damaged, or not {what}") from None
