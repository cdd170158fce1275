"""Where rescues write to: each stream has a store of its own, beside those of others."""

from itertools import count
from pathlib import Path

from bbflow.errors import ConfigError
from bbflow.stream.cf import OWN
from bbflow.zarr_store.growing import METADATA, shown_attributes

PATTERN = "raw*.zarr"
LAST_HIT = f"{OWN}last_hit"
"""The store's attribute with the last step for which the condition of `raw: when` held."""
LEFT_OUT = f"{OWN}left_out"
"""Attribute of a store: what a rescue had to leave out, and why."""
WHOLE_SINCE = f"{OWN}whole_since"
"""Attribute of a store: for variables the first step, by its place, since which each has had all values; in JSON."""
NAME = f"{OWN}name"
"""Attribute of an array: the variable's name in the stream, where no array can be called so."""

HIDDEN = {name: f"{OWN}{name}" for name in ("units", "calendar")}
"""Attributes of a time axis by which readers make dates, and what they are called where some step has none."""
MIXED = f"{OWN}mixed"
"""Attribute of an array of integers: the value that stands both for itself and for what isn't there."""


def rescued_stores(directory: Path) -> list[Path]:
    """Return the stores in a directory of rescues."""
    return sorted(directory.glob(PATTERN))


def unused_store(directory: Path) -> Path:
    """Return a path for one more store: ``raw.zarr``, ``raw_2.zarr`` and so on."""
    names = (f"raw_{number}.zarr" if number > 1 else "raw.zarr" for number in count(1))
    return next(path for path in map(directory.joinpath, names) if not path.exists())


def check_there(store: Path) -> None:
    """Check that a store into which steps were drained is there.

    Raises
    ------
    ConfigError
        If it is gone.
    """
    if not (store / METADATA).exists():
        raise ConfigError(f"{store} was removed, so steps in it are lost; give another output")


def left_out_of(store: Path) -> tuple[str, ...]:
    """Return the variables that a rescue had to leave out of a store, at least of some steps, each with the reason."""
    return tuple(shown_attributes(store).get(LEFT_OUT, ()))
