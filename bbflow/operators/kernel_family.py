"""Families that the kernel folds and merges besides moments and extremes."""

from abc import abstractmethod
from typing import NamedTuple

from bbflow.operators import kernel, library
from bbflow.operators.family import Family
from bbflow.operators.library import FIELDS, MOST_FIELDS
from bbflow.operators.steps import Steps, Views

NOWHERE = [0] * (MOST_FIELDS + 1)
"""`library.PLACES` of no state."""
NO_MOMENTS = [0] * (3 * len(FIELDS))
"""Begins a `library.MERGE_TASK` of a state that has a family alone."""


class InKernel(NamedTuple):
    """What the kernel must know of a family, as `library.FAMILY_TASK` has it."""

    kind: int
    """Which of `library.FAMILIES`."""
    size: int = 0
    """Of a sketch's runs; bins of a grid."""
    top: int = 0
    """Of a sketch."""
    bins: int = 0
    """Address of what tells bins with given edges from each other, which stays there."""


class KernelFamily(Family):
    """A family that the kernel folds and merges."""

    own_tiles = True

    @property
    @abstractmethod
    def in_kernel(self) -> InKernel:
        """What the kernel must know of it."""

    def task(self, target: Views, left: Views | None = None, right: Views | None = None) -> list[int]:
        """Return what the kernel has to do for one state: the words of `library.FAMILY_TASK`.

        Fields are in their order in all views.
        """
        return [0, *self.in_kernel, *_places(left), *_places(right), *_places(target)]

    def fold(self, views: Views, steps: Steps) -> None:
        """Take steps into a state."""
        self.fold_from(views, views, steps)

    def fold_from(self, target: Views, source: Views | None, steps: Steps) -> None:
        """Set target = source (+) steps in one pass."""
        kernel.fold_state({}, None, steps, families=self.task(target, source))

    def merge(self, target: Views, left: Views, right: Views) -> None:
        """Set target = left (+) right; the target may be either side."""
        *_, last = left.values()  # of the input's type, where a family has any: others don't look at it
        library.merge_state(last.dtype, (*NO_MOMENTS, last.shape[-1]), self.task(target, left, right))


def _places(views: Views | None) -> list[int]:
    """Return the words of `library.PLACES` of a state."""
    if views is None:
        return NOWHERE
    stride = next((values.strides[-2] // values.itemsize for values in views.values() if values.ndim > 1), 0)
    return [*[values.ctypes.data for values in views.values()], *NOWHERE[len(views) : -1], stride]
