"""When the smallest or the largest value was: of equal ones the earliest."""

from dataclasses import dataclass

import numpy as np

from bbflow.operators.family import Family, StateField
from bbflow.operators.operator import Operator, OperatorKind, plain
from bbflow.operators.steps import Array, DType, Steps, Views


@dataclass(frozen=True, slots=True)
class ExtremeTime(Family):
    """Keeps an extreme and its earliest time."""

    extreme: str
    """'min' or 'max'."""

    @property
    def name(self) -> str:
        """One for each extreme."""
        return f"arg{self.extreme}"

    def fields(self, dtype: DType) -> tuple[StateField, ...]:
        """Return the extreme and its time."""
        return (StateField("value", None, merge=self.extreme), StateField("time", "f8", empty=np.inf))

    def fold(self, views: Views, steps: Steps) -> None:
        """Compare step by step."""
        for position, block in enumerate(steps.values):
            time = steps.times[position]
            taken = self._beats(block, time, views)
            if steps.fill is not None:
                taken &= block != steps.fill
            np.copyto(views["value"], block, where=taken)
            np.copyto(views["time"], time, where=taken)

    def combine(self, left: Views, right: Views) -> dict[str, Array]:
        """Take the side with the better value, of equal ones the earlier."""
        taken = self._beats(right["value"], right["time"], left)
        return {name: np.where(taken, right[name], values) for name, values in left.items()}

    def _beats(self, block: Array, time: Array, known: Views) -> Array:
        """Return where values are better than the known ones, or as good and earlier; NaN never is."""
        better = block < known["value"] if self.extreme == "min" else block > known["value"]
        earlier = time < known["time"]
        # Rare, as steps come in order: else the comparison of equals, a second pass over the block, can be left out.
        if earlier.any():
            earlier &= block == known["value"]
            better |= earlier
        return np.asarray(better)


def time_of(views: Views) -> Array:
    """Return the time of the extreme; NaN where there was no valid value."""
    return np.where(np.isfinite(views["time"]), views["time"], np.nan)


def _kind(name: str, extreme: str, adjective: str) -> OperatorKind:
    summary = f"time of the {adjective} value"
    method = f"point ({summary}, the first one of equals)"
    return plain(summary, Operator(name, ExtremeTime(extreme), time_of, method, summary, own_units="{time_units}"))


KINDS = (_kind("argmin", "min", "smallest"), _kind("argmax", "max", "largest"))
