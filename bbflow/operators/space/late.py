"""A remap of results in place of each step: the same for statistics that are sums, where nothing comes and goes."""

import pickle
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from math import prod
from pathlib import Path

import numpy as np

from bbflow.atomic import write_whole
from bbflow.errors import ConfigError
from bbflow.operators.space.placement import Local
from bbflow.operators.space.remapping import Remapped
from bbflow.operators.steps import Array, Steps

LATE = "late."
"""How errors are named that are of a remap of results; behind it is the diagnostic."""


@dataclass(frozen=True, slots=True)
class LateRemap:
    """Puts results on another grid, wherever they are made."""

    name: str
    """Of the weights."""
    shape: tuple[int, ...]
    """Of the result."""
    points: int
    """How many points the variable has."""
    digest: str
    """Tells it from others."""
    file: str
    """Has the links."""

    @classmethod
    def keep(cls, folder: Path, placement: Remapped) -> "LateRemap":
        """Keep the links of the whole grid in a file.

        Raises
        ------
        ConfigError
            If none leads into the grid.
        """
        local = placement.local((0,) * len(placement.source), placement.source)
        if local is None:
            raise ConfigError(f"{placement.weights.name} has no link from the variable's grid")
        digest = blake2b(placement.weights.digest.encode() + repr(placement.source).encode(), digest_size=8).hexdigest()
        file = folder / f"late-{digest}"
        if not file.exists():
            folder.mkdir(parents=True, exist_ok=True)
            write_whole(file, pickle.dumps(local, protocol=5))
        return cls(placement.weights.name, tuple(placement.shape), prod(placement.source), digest, str(file))

    def spread(self, values: Array, _empty: object = None) -> Array:
        """Remap a result.

        Parameters
        ----------
        values
            Of the shape of the variable.

        Returns
        -------
        numpy.ndarray
            Float64 of shape `shape`: as a step's values are remapped.
        """
        [found] = _local(self.file).values(Steps([np.ascontiguousarray(values).reshape(-1)]))
        return found.reshape(self.shape)


@lru_cache(maxsize=4)
def _local(file: str) -> Local:
    local: Local = pickle.loads(Path(file).read_bytes())
    return local


def comes_and_goes(counts: Array) -> bool:
    """Whether some point has values at some of the steps only: its share of a sum then isn't that of each step."""
    return bool(((counts != 0) & (counts != counts.max(initial=0))).any())
