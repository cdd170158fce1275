"""How many values were seen, missing ones included: what skipna=false needs."""

from dataclasses import dataclass

from bbflow.operators.family import Family, StateField
from bbflow.operators.steps import DType, Steps, Views


@dataclass(frozen=True, slots=True)
class Presence(Family):
    """Counts the steps of each point."""

    name = "presence"

    def fields(self, dtype: DType) -> tuple[StateField, ...]:
        """One number."""
        return (StateField("seen", "i4", merge="add"),)

    def fold(self, views: Views, steps: Steps) -> None:
        """Count steps."""
        views["seen"][...] += len(steps.values)
