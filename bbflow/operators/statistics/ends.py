"""The first and the last value of a window, each kept with its time, so that states merge in any order."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from bbflow.operators.family import Family, StateField
from bbflow.operators.operator import Operator, OperatorKind, plain
from bbflow.operators.steps import Array, DType, Steps, Views


@dataclass(frozen=True, slots=True)
class End(Family):
    """Keeps the value of the earliest or the latest time."""

    latest: bool
    """Whether it is the latest."""
    any_value: bool = False
    """Whether a missing value counts too."""

    @property
    def name(self) -> str:
        """One for each end."""
        if self.any_value:
            return "instant"
        return "last" if self.latest else "first"

    def fields(self, dtype: DType) -> tuple[StateField, ...]:
        """Return the value and its time; an integer can't be missing, so a flag says whether it is valid."""
        beaten = -np.inf if self.latest else np.inf  # by every other time
        return (StateField("value", None), StateField("time", "f8", empty=beaten), StateField("valid", "u1"))

    def fold(self, views: Views, steps: Steps) -> None:
        """Begin at the end that counts: once every point has its value, the other steps aren't touched."""
        for position in self._order(len(steps.values)):
            taken = self._beats(steps.times[position], views["time"])
            if not taken.any():
                continue
            block = steps.values[position]
            valid = steps.valid_in(position)
            if not self.any_value:
                taken &= valid
            np.copyto(views["value"], block, where=taken)
            np.copyto(views["time"], steps.times[position], where=taken)
            np.copyto(views["valid"], valid, where=taken)

    def combine(self, left: Views, right: Views) -> dict[str, Array]:
        """Take the side whose time wins; of one time twice, the left side's."""
        taken = self._beats(right["time"], left["time"])
        return {name: np.where(taken, right[name], values) for name, values in left.items()}

    def _order(self, steps: int) -> Iterable[int]:
        return reversed(range(steps)) if self.latest else range(steps)

    def _beats(self, time: Array, known: Array) -> Array:
        return np.asarray(time > known if self.latest else time < known)


def value(views: Views) -> Array:
    """Return the value that was kept."""
    values = views["value"]
    missing = np.array(np.nan, values.dtype if values.dtype.kind == "f" else "f8")
    return np.where(views["valid"] != 0, values, missing)


def _kind(name: str, summary: str, family: End) -> OperatorKind:
    return plain(summary, Operator(name, family, value, f"point ({summary})", summary, result=None))


KINDS = (
    _kind("first", "first valid value", End(latest=False)),
    _kind("last", "last valid value", End(latest=True)),
    _kind("instant", "value of the last step", End(latest=True, any_value=True)),
)
