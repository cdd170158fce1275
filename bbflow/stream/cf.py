"""What a stream's attributes say in terms of the CF conventions."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bbflow.stream.attributes import DIMENSIONS as DIMENSIONS
from bbflow.stream.attributes import as_cf, items_of, numbers_of
from bbflow.stream.point_maps import PointMap

CF_VERSION = "CF-1.11"
OWN = "bbflow_"
"""How names begin that bbflow adds to those of a stream; a stream's own may not."""
STEP = f"{OWN}step"
"""Coordinate with the simulation's step numbers; also the first dimension where steps have no time."""
UNORDERED = f"{OWN}unordered"
"""Attribute that schemas give a variable: the dimension along which each step has other things, or in another order."""
BOUNDS = "bnds"
"""Dimension of the two ends of cells and windows in stores."""
STORAGE = frozenset(("_FillValue", "missing_value", "dtype", "_Encoding", DIMENSIONS))
"""Attributes that describe only how a variable is stored, or that xarray takes for that: stores have their own."""

PACKING = {"scale_factor": 1, "add_offset": 0}
"""Attributes that tell how numbers are packed, and what they are where there are none."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """How a variable's values are written (CF conventions, sections 2.5.1 and 8.1)."""

    missing: tuple[float | int, ...] = ()
    """What stands for a missing value, besides NaN; as it is written."""
    scale: float = 1.0
    """A packed value times this …"""
    offset: float = 0.0
    """… and plus this is what is meant."""
    unsigned: bool | None = None
    """Whether integers are meant as unsigned, or signed, ones, whatever their type says; None if it says so."""
    lowest: float | int | None = None
    """Smallest valid value, as it is written; less is missing."""
    highest: float | int | None = None
    """Largest valid value."""

    @property
    def is_packed(self) -> bool:
        """Whether a value times the scale and plus the offset is what is meant."""
        return (self.scale, self.offset) != (1.0, 0.0)


@dataclass(frozen=True, slots=True)
class StreamAttributes:
    """Attributes by their ADIOS2 names, ``<variable>/<attribute>``; those of no variable are global."""

    values: Mapping[str, Any]
    """Name to value, as `attributes.meant` gives it."""
    reserved: frozenset[str] = frozenset()
    """Names of dimensions that stand for others here, such as that of time."""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Lengths of dimensions: a variable that would give one another length has a dimension of its own there."""
    variables: Collection[str] | None = None
    """The stream's, to tell their attributes from those of other paths; None: those without a slash are global."""
    maps: Mapping[str, PointMap] = field(default_factory=dict)
    """Variable to where its points lie, if its blocks have them in an order of their own."""

    def with_late(self, values: Mapping[str, Any], variables: Collection[str] = ()) -> "StreamAttributes":
        """Return the same with attributes and variables that have come since; what was told first stays."""
        known = None if self.variables is None else frozenset(self.variables) | frozenset(variables)
        return replace(self, values={**values, **self.values}, variables=known)

    def of(self, variable: str) -> dict[str, Any]:
        """Return a variable's CF attributes, in CF's types, without what only describes its storage.

        A name with a further slash is of another variable, whose name begins like this one's.
        """
        prefix = f"{variable}/"
        own = {name.removeprefix(prefix): value for name, value in self.values.items() if name.startswith(prefix)}
        if "coordinates" not in own and {"mesh", "location"} <= own.keys():  # UGRID: the mesh tells where its parts are
            places = self.values.get(f"{own['mesh']}/{own['location']}_coordinates")
            own |= {} if places is None else {"coordinates": places}
        return _described({name: value for name, value in own.items() if "/" not in name})

    def having(self, attribute: str) -> list[str]:
        """Return the variables that have an attribute."""
        return [name.removesuffix(f"/{attribute}") for name in self.values if name.endswith(f"/{attribute}")]

    @property
    def of_stream(self) -> dict[str, Any]:
        """Return the global attributes, by their whole names: an openPMD stream has such as ``/basePath``."""
        return _described({name: value for name, value in self.values.items() if self._is_global(name)})

    @property
    def of_stream_by_now(self) -> dict[str, Any]:
        """Return those global attributes that can't turn out to be of a variable that comes later."""
        own = {name: value for name, value in self.values.items() if not name.rpartition("/")[0]}
        return _described(own)

    def _is_global(self, name: str) -> bool:
        owner, slash, _ = name.rpartition("/")
        return not slash or (self.variables is not None and owner not in self.variables)

    def encoding(self, variable: str) -> Encoding:
        """Return how a variable's values are written: what is missing or valid of them, and how they are packed."""
        told = [value for name in ("_FillValue", "missing_value") for value in self._numbers(variable, name)]
        missing = [value for value in told if value == value]  # NaN is missing anyway, and would equal no other reading
        scale, offset = (next(iter(self._numbers(variable, name)), default) for name, default in PACKING.items())
        sign = self.values.get(f"{variable}/_Unsigned")
        unsigned = None if sign is None else as_cf("_Unsigned", sign) == "true"
        return Encoding(tuple(dict.fromkeys(missing)), float(scale), float(offset), unsigned, *self._valid(variable))

    def _valid(self, variable: str) -> tuple[float | int | None, float | int | None]:
        """Return the smallest and the largest valid value; a range counts more than its ends alone."""
        both = self._numbers(variable, "valid_range")
        ends = (next(iter(self._numbers(variable, name)), None) for name in ("valid_min", "valid_max"))
        lowest, highest = both if len(both) == 2 else ends
        return (lowest if lowest == lowest else None), (highest if highest == highest else None)

    def _numbers(self, variable: str, name: str) -> list[float | int]:
        """Return the numbers of an attribute, also of one that is written as text; none if it has others."""
        value = self.values.get(f"{variable}/{name}")
        return [] if value is None else numbers_of(value) or []

    def unordered(self, variable: str) -> str | None:
        """Return the dimension along which a variable's rows are other things in each step, if there is one."""
        found = self.values.get(f"{variable}/{UNORDERED}")
        return None if found is None else str(found)

    def grid(self, variable: str, shape: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of a variable's field, whose points its blocks may have in another order."""
        own = self.maps.get(variable)
        return tuple(shape) if own is None else own.shape

    def agreeing(self, shapes: Mapping[str, Sequence[int]]) -> "StreamAttributes":
        """Return the same where dimensions have the lengths that some variables give them, and bounds two ends."""
        grids = {name: self.grid(name, shape) for name, shape in shapes.items()}
        laid = {name: (self.dimensions(name, shape), shape) for name, shape in grids.items()}
        return replace(self, sizes=dimension_sizes(laid) | {BOUNDS: 2})

    def told_dimensions(self, variable: str) -> tuple[Any, ...]:
        """Return what the attribute ``_ARRAY_DIMENSIONS`` of a variable has; nothing if there is none."""
        named = self.values.get(f"{variable}/{DIMENSIONS}", ())
        return tuple(named.split() if isinstance(named, str) else items_of(named))

    def dimensions(self, variable: str, shape: Sequence[int]) -> tuple[str, ...]:
        """Return a variable's dimension names.

        They are those of its attribute ``_ARRAY_DIMENSIONS`` (a list, or names with spaces between; numbers are none),
        without the first one if there is one more than the step has: it is that of the steps. Else they are
        ``<variable>_dim0``, ``<variable>_dim1`` and so on. One that is reserved, or begins with `OWN`, becomes
        ``<variable>_<name>``; one that the variable has twice is numbered at its second place, and so is one that has
        another length elsewhere.
        """
        names = self.told_dimensions(variable)
        names = names[1:] if len(names) == len(shape) + 1 else names
        numbered = tuple(f"{variable}_dim{axis}" for axis in range(len(shape)))
        if len(names) != len(shape) or not all(name and isinstance(name, str) for name in names):
            return numbered
        free = tuple(
            number if name in names[:axis] else self._free(variable, name)
            for axis, (name, number) in enumerate(zip(names, numbered, strict=True))
        )
        return fitting(variable, free, shape, self.sizes)

    def _free(self, variable: str, name: str) -> str:
        return f"{variable}_{name}" if name in self.reserved or name.startswith(OWN) else name


def dimension_sizes(laid: Mapping[str, tuple[Sequence[str], Sequence[int]]]) -> dict[str, int]:
    """Return the lengths of dimensions: of the 1-D variable of that name, else of the first variable that has it.

    Parameters
    ----------
    laid
        Name of a variable to its dimensions and its shape.
    """
    axes = {name: shape[0] for name, (_, shape) in laid.items() if len(shape) == 1}
    sizes: dict[str, int] = {}
    for _, (dims, shape) in sorted(laid.items()):
        for dim, size in zip(dims, shape, strict=True):
            sizes.setdefault(dim, axes.get(dim, size))
    return sizes


def fitting(variable: str, dims: Sequence[str], shape: Sequence[int], sizes: Mapping[str, int]) -> tuple[str, ...]:
    """Return a variable's dimensions, those numbered that have another length elsewhere."""
    named = enumerate(zip(dims, shape, strict=True))
    return tuple(dim if sizes.get(dim, size) == size else f"{variable}_dim{axis}" for axis, (dim, size) in named)


def _described(own: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes in CF's types; those that would be taken for the stores' own are left out."""
    found = {name: as_cf(name, value) for name, value in own.items() if name not in STORAGE}
    return {name: value for name, value in found.items() if value is not None and not name.startswith(OWN)}
