"""How models divide their grids among ranks: by formula, as E3SM, ICON and WRF do."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

Box = tuple[tuple[int, ...], tuple[int, ...]]
"""Start and count of a block."""
RUNS = 4
"""Into how many runs of columns E3SM's physics deals the columns of a rank, by day and night and by latitude."""
RUN_COLUMNS = 4
"""Of the runs of `e3sm`."""


@dataclass(frozen=True, slots=True)
class Decomposition:
    """The blocks of one variable."""

    shape: tuple[int, ...]
    """Of the variable."""
    boxes: Callable[[int], Sequence[Box]]
    """Returns a rank's blocks."""


def e3sm(ranks: int, levels: int = 1) -> Decomposition:
    """Return the columns of an F case, dealt in short runs: rank `r` has run `r` of each round."""
    shape = (levels, RUNS * RUN_COLUMNS * ranks)

    def boxes(rank: int) -> list[Box]:
        starts = [(turn * ranks + rank) * RUN_COLUMNS for turn in range(RUNS)]
        return [((0, start), (levels, RUN_COLUMNS)) for start in starts]

    return Decomposition(shape, boxes)


def icon(ranks: int, levels: int = 1, cells: int = 20) -> Decomposition:
    """Return cells of a grid such as R2B9, one run for each rank; `cells` each, and every third rank has one more."""
    total = cells * ranks + ranks // 3

    def boxes(rank: int) -> list[Box]:
        start, end = (number * total // ranks for number in (rank, rank + 1))
        return [((0, start), (levels, end - start))]

    return Decomposition((levels, total), boxes)


def wrf(ranks: int, levels: int = 1, tile: int = 4) -> Decomposition:
    """Return tiles of about `tile` x `tile` points of a grid, which the ranks of a nearly square mesh share."""
    rows = max(number for number in range(1, math.isqrt(ranks) + 1) if ranks % number == 0)
    columns = ranks // rows
    north, east = (tile * number + number // 2 for number in (rows, columns))

    def boxes(rank: int) -> list[Box]:
        row, column = divmod(rank, columns)
        ends = [(at * length // parts, (at + 1) * length // parts) for at, length, parts in
                ((row, north, rows), (column, east, columns))]  # fmt: skip
        return [((0, *(start for start, _ in ends)), (levels, *(end - start for start, end in ends)))]

    return Decomposition((levels, north, east), boxes)


DECOMPOSITIONS: dict[str, Callable[[int], Decomposition]] = {"e3sm": e3sm, "icon": icon, "wrf": wrf}


def values(step: int, variable: int, shape: Sequence[int], box: Box) -> np.ndarray:
    """Return what a block holds: float32 of the shape of the box, which follow from where each point lies.

    Parameters
    ----------
    step, variable
        Their numbers.
    shape
        Of the variable.
    box
        Start and count.
    """
    index = np.zeros((), np.int64)
    for start, count, length in zip(*box, shape, strict=True):
        index = index[..., np.newaxis] * length + np.arange(start, start + count)
    return ((7 * index + 13 * variable + 29 * step) % 251).astype("f4")
