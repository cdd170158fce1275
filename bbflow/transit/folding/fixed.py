"""Fixed fields: what the first step alone has, and later steps' expressions need; they are held as masks are."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bbflow.host.parsing import PARSING, load_array
from bbflow.operators.space.placement import Local
from bbflow.operators.steps import Array
from bbflow.stream.records import BlockForm
from bbflow.transit.states.shards import Place, ShardKey

HELD = ""
"""Stands for the node of a fixed field: it is on none, and names of nodes aren't empty."""


@dataclass(frozen=True, slots=True)
class FixedField:
    """A variable that is held."""

    form: BlockForm
    """Its type and its shape: a block that is all of it."""
    path: str
    """The file with its values as the first step has them (`StreamArrays`)."""
    _mapped: list[Array] = field(default_factory=list, init=False, repr=False, compare=False)
    """The values, once a shard has needed them: mapped as long as there is a plan that has this."""

    def __reduce__(self) -> tuple[type["FixedField"], tuple[Any, ...]]:
        return FixedField, (self.form, self.path)

    @property
    def values(self) -> Array:
        """All values; of the form's shape."""
        with PARSING:
            if not self._mapped:
                self._mapped.append(load_array(self.path, "r"))
        return self._mapped[0]

    def part(self, key: ShardKey, local: Local | None, points: int) -> Array:
        """Return what a shard needs of it, of shape (points,), or of (columns,) if it has no levels."""
        values = self.values
        if not values.shape:
            return np.full(points, values[()])
        region = tuple(slice(at, at + size) for at, size in zip(key.start, key.count, strict=True))
        if values.ndim < len(region):
            assert local is not None
            assert local.column is not None
            region = (*region[: local.column.axis], *region[local.column.axis + 1 :])
        return np.ascontiguousarray(values[region]).reshape(-1)


Fixed = Mapping[str, FixedField]
"""Variable to what is held of it."""


def place_of(name: str, fixed: Fixed) -> Place:
    """Return where plans have a fixed field."""
    return HELD, sorted(fixed).index(name)


def at_place(place: Place, fixed: Fixed) -> FixedField:
    """Return the fixed field at a place."""
    return fixed[sorted(fixed)[place[1]]]
