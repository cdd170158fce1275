"""Spaces on a grid: which region of a result each block contributes to, and how the contributions merge."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bbflow.operators.family import Array, DType
from bbflow.operators.space.local import Local


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """A space on a variable's grid."""

    dims: tuple[str, ...]
    """Dimensions of the result; () if it is one number."""
    shape: tuple[int, ...]
    """Their sizes."""
    coordinates: Mapping[str, Array]
    """Coordinates that differ from the variable's own, by name: of changed dimensions, their bounds, and of points."""
    coordinate_dims: Mapping[str, tuple[str, ...]]
    """Dimensions of each of them: (lat,), (lat, bnds), (point,)."""
    cell_methods: str
    """What was done in space, as CF writes it, such as 'area: mean'; empty for selections."""
    own_units: str
    """Units of the result; {units} stands for the variable's. Empty if they aren't known."""

    @property
    def components(self) -> int:
        """Give how many numbers (k) a partial result has for each point."""
        raise NotImplementedError

    def dtype(self, dtype: DType) -> DType:
        """Give the type of a complete region's values for the variable's type: float32 or float64."""
        raise NotImplementedError

    def touches(self, start: tuple[int, ...], count: tuple[int, ...]) -> bool:
        """Say whether anything of a block is needed."""
        raise NotImplementedError

    def local(self, start: tuple[int, ...], count: tuple[int, ...]) -> Local | None:
        """Give what a block has of the result; None if nothing.

        Parameters
        ----------
        start, count
            The block's region of the variable.
        """
        raise NotImplementedError

    def merge(self, left: Array, right: Array) -> Array:
        """Merge two partial results of one region and of blocks that don't overlap, in any order."""
        raise NotImplementedError

    def finish(self, partial: Array) -> Array:
        """Give the results of a partial one.

        Parameters
        ----------
        partial
            Of shape (steps, k, points).

        Returns
        -------
        numpy.ndarray
            float64 of shape (steps, points); NaN where nothing was valid.
        """
        raise NotImplementedError

    def assemble(self, steps: int, parts: Iterable[tuple[Local, Array]]) -> Array:
        """Merge the partial results of blocks into that of the whole, of shape (steps, k, prod(shape))."""
        raise NotImplementedError
