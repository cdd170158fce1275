"""Maps of points: where each of a field's values lies, if blocks hold them in an order of their own."""

from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from bbflow.errors import StreamError
from bbflow.host.atomic import replacing
from bbflow.host.parsing import load_array

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class PointMap:
    """Where the points of a field lie in its grid: statistics are made of them, and spread when they are written."""

    name: str
    """Of the decomposition."""
    shape: tuple[int, ...]
    """Of the grid."""
    points: int
    """How many values a step has, one after another."""
    digest: str
    """Identifies it."""
    file: str
    """Has the places: for each value its index in the grid, row by row, or -1 if it has none."""

    @classmethod
    def keep(cls, folder: Path, name: str, shape: tuple[int, ...], places: Array) -> "PointMap":
        """Keep a map in a file.

        Raises
        ------
        StreamError
            If a place is outside of the grid, or two values have one.
        """
        own = np.ascontiguousarray(places, "<i8").reshape(-1)
        there = own[own >= 0]
        if there.size and there.max() >= prod(shape):
            raise StreamError(f"decomposition {name}: a point lies at {there.max() + 1} of a grid of shape {shape}")
        taken = np.zeros(prod(shape), bool)  # numpy.unique takes 100 times as long for points in no order
        taken[there] = True
        if np.count_nonzero(taken) != there.size:
            raise StreamError(f"decomposition {name}: two points have one place in the grid of shape {shape}")
        digest = blake2b(own.tobytes() + repr(shape).encode(), digest_size=8).hexdigest()
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"map-{digest}.npy"
        if not file.exists():
            # Named by its content: whoever writes it at the same time, under a name of its own, renames the same bytes.
            with replacing(file) as temporary, temporary.open("wb") as new:
                np.save(new, own)
        return cls(name, shape, own.size, digest, str(file))

    def is_same(self, shape: tuple[int, ...], places: Array) -> bool:
        """Return whether a map that is told again is this one: much cheaper than to `keep` it again."""
        return shape == self.shape and bool(np.array_equal(_places(self.file), places))

    @property
    def is_whole(self) -> bool:
        """Whether each place of the grid has a value."""
        return int((_places(self.file) >= 0).sum()) == prod(self.shape)

    def spread(self, values: Array, empty: Any) -> Array:
        """Put values into the grid.

        Parameters
        ----------
        values
            Of shape (…, points).
        empty
            What stands where the map has no value; it broadcasts against (…, places).

        Returns
        -------
        numpy.ndarray
            Of shape (…, *shape).
        """
        places = _places(self.file)
        whole = np.empty((*values.shape[:-1], prod(self.shape)), values.dtype)
        whole[...] = empty
        there = places >= 0
        if there.all():
            whole[..., places] = values
        else:
            whole[..., places[there]] = values[..., there]
        return whole.reshape(*values.shape[:-1], *self.shape)


@lru_cache(maxsize=8)
def _places(file: str) -> Array:
    return load_array(file, "r")
