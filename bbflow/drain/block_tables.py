"""Tables of blocks: what has no place in one array, as local arrays, ragged ones, and those that change their shape.

A table is a group of the store with all values of a variable one after another, and for each block its step, its
rank and where it lies: a contiguous ragged array of the CF conventions (section 9.3.3), of blocks with any dimensions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bbflow.stream.cf import OWN
from bbflow.stream.records import Block, BlockForm
from bbflow.zarr_store.chunks import TEXT
from bbflow.zarr_store.growing import GrowingZarr
from bbflow.zarr_store.stored_names import stored_name

Array = np.ndarray[Any, Any]
TYPE, KIND = f"{OWN}type", f"{OWN}kind"
"""Attributes of a table: ADIOS2's names of its type, and of the kind of its variable."""
# A chunk is rewritten for each block that is added: small enough for that, and large enough to read many at once.
BLOCKS_PER_CHUNK = 1 << 12
LEAST_POINTS, MOST_POINTS = 1 << 16, 1 << 22
"""Of a chunk of values, which is rewritten when values are added to it."""
WITHOUT_A_PLACE = ("LocalArray", "LocalValue", "JoinedArray")
"""Kinds of variables without a place in the logical file that is the same in each step."""


@dataclass(frozen=True, slots=True)
class LandedBlock:
    """A block that goes into a table."""

    step: int
    """Its step."""
    block: Block
    """What is known of it."""
    values: Array
    """Of its shape; of a text an array of objects."""


def needs_table(form: BlockForm) -> bool:
    """Whether blocks of a kind have no array: nor has long double, for which Zarr has no type."""
    return form.kind in WITHOUT_A_PLACE or form.type == "long double"


def table_name(name: str) -> str:
    """Name the table of a variable."""
    return stored_name(f"{name}_blocks")


class BlockTables:
    """Writes the tables of one store; readers see with the store's next commit what was added.

    Parameters
    ----------
    store
        The store.
    """

    def __init__(self, store: GrowingZarr) -> None:
        self._store = store

    def has(self, name: str) -> bool:
        """Whether a variable has a table."""
        return table_name(name) in self._store

    def why_not(self, form: BlockForm | Block) -> str:
        """Return how blocks differ from those that a table has, if they do; nothing if they can be added."""
        table = table_name(form.name)
        if table not in self._store:
            return ""
        told = self._store.metadata(table)["attributes"]
        known, own = (told.get(TYPE), told.get(KIND)), (form.type, form.kind)
        return "" if known == own else f"a {form.kind} of {form.type} after a {known[1]} of {known[0]}"

    def add(self, name: str, attributes: Mapping[str, Any], landed: Sequence[LandedBlock]) -> None:
        """Add blocks of a variable.

        Parameters
        ----------
        name
            The variable.
        attributes
            What a new table is to say of it.
        landed
            The blocks, one at least.
        """
        table = table_name(name)
        flat = [_flat(item.values) for item in landed]
        values = np.concatenate(flat)
        if table not in self._store:
            self._create(table, attributes, landed[0].block, values)
        begin = self._length(table, "value")
        ends = begin + np.cumsum([len(own) for own in flat])
        columns = {
            "step": [item.step for item in landed],
            "rank": [item.block.rank for item in landed],
            "begin": ends - [len(own) for own in flat],
            "size": [len(own) for own in flat],
        }
        at = self._length(table, "step")
        for column, own in columns.items():
            self._store.write(f"{table}/{column}", at, np.asarray(own, "i8"))
        for column in ("shape", "start", "count") if landed[0].block.count else ():
            rows = [_padded(getattr(item.block, column), item.block) for item in landed]
            self._store.write(f"{table}/{column}", at, np.array(rows, "u8"))
        self._store.write(f"{table}/value", begin, values)

    def _length(self, table: str, column: str) -> int:
        return int(self._store.metadata(f"{table}/{column}")["shape"][0])

    def _create(self, table: str, attributes: Mapping[str, Any], block: Block, values: Array) -> None:
        is_text = values.dtype == object
        points = min(max(len(values), LEAST_POINTS), MOST_POINTS)
        dim = "byte" if block.type == "long double" else "point"
        self._store.create(f"{table}/value", (dim,), (0,), TEXT if is_text else values.dtype, attributes, (points,))
        self._store.describe(table, **{TYPE: block.type, KIND: block.kind})
        for column in ("step", "rank", "begin", "size"):
            self._store.create(f"{table}/{column}", ("block",), (0,), "i8", {}, (BLOCKS_PER_CHUNK,))
        ndim = len(block.count)
        for column in ("shape", "start", "count") if ndim else ():
            chunks = (BLOCKS_PER_CHUNK, ndim)
            self._store.create(f"{table}/{column}", ("block", "axis"), (0, ndim), "u8", {}, chunks)


def _flat(values: Array) -> Array:
    """Return values one after another; long double as its bytes."""
    flat = np.ascontiguousarray(values).reshape(-1)
    return flat.view("u1") if flat.dtype == np.longdouble else flat


def _padded(own: Sequence[int], block: Block) -> Sequence[int]:
    """Return a shape or a place with a number for each dimension: what has none has zeros."""
    return own if len(own) == len(block.count) else (0,) * len(block.count)
