"""Shares of sums: how much of the sum of all absolute values positive ones have."""

from dataclasses import dataclass

import numpy as np

from bbflow.operators.family import Family, StateField
from bbflow.operators.operator import Operator, plain
from bbflow.operators.steps import Array, DType, Steps, Views


@dataclass(frozen=True, slots=True)
class SignedSums(Family):
    """Keeps the sums of positive and of negative values, both as absolute ones."""

    name = "signed sums"

    def fields(self, dtype: DType) -> tuple[StateField, ...]:
        """Return the sums."""
        return tuple(StateField(name, "f8", merge="add") for name in ("positive", "negative"))

    def fold(self, views: Views, steps: Steps) -> None:
        """Add a tile's values."""
        values = np.where(steps.valid(), steps.stacked(), 0).astype("f8")
        with np.errstate(invalid="ignore", over="ignore"):  # infinite values: as in IEEE 754
            views["positive"][...] += np.maximum(values, 0).sum(axis=0)
            views["negative"][...] -= np.minimum(values, 0).sum(axis=0)


def positive_share(views: Views) -> Array:
    """Return 100 positive / (positive + negative); NaN where both are 0."""
    return np.asarray(100 * views["positive"] / (views["positive"] + views["negative"]))


TEXT = "percentage that positive values have of the sum of absolute ones"
KINDS = (plain(TEXT, Operator("positive_share", SignedSums(), positive_share, f"sum ({TEXT})", TEXT, own_units="%")),)
