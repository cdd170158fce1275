"""WRF's own ADIOS2 output (`io_form_history = 14`): a date as text in each step, dimensions in Fortran's order."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bbflow.schemas.cutting import NEW, Cut
from bbflow.schemas.schema import TIME, LandedStep, Stateless
from bbflow.stream.cf import DIMENSIONS
from bbflow.stream.layouts import BlockForm, Layout
from bbflow.stream.records import Parts, Step

TIMES = "Times"
"""The variable with the date of a step."""
OWN = ("FieldType", "MemoryOrder", "stagger", "Stagger")
"""Attributes that describe WRF's memory, and nothing that is in the results."""
LENGTHS = "_DIM_"
"""Begins the names of attributes that give the lengths of dimensions."""


@dataclass(slots=True)
class Wrf(Stateless):
    """WRF's history and restart files.

    `Times` is a text; each variable has the attributes `Dims` (names of its dimensions, the fastest one first, with
    `Time` at the end), `MemoryOrder`, `description` and `units`, and the longitudes and latitudes `XLONG` and `XLAT`.
    """

    name: str = "wrf"
    needs_all: bool = False
    _cuts: dict[Layout, Cut] = field(default_factory=dict)

    def recognises(self, names: Collection[str], attributes: Mapping[str, Any]) -> bool:
        """Return whether it is WRF: dates in `Times`, and `MemoryOrder` or `Dims` of some variable."""
        described = (name.rpartition("/")[2] for name in attributes)
        return (TIMES in names or not names) and any(name in ("MemoryOrder", "Dims") for name in described)

    def attributes(self, name: str, value: Any) -> Sequence[tuple[str, Any]]:
        """Return names of dimensions as they lie in memory, and CF's name for a description."""
        variable, _, own = name.rpartition("/")
        if name.startswith(LENGTHS) or own in OWN:
            return []
        if own == "Dims":
            names = [value] if isinstance(value, str) else list(value)
            return [(f"{variable}/{DIMENSIONS}", [str(dim).strip() for dim in reversed(names)])]
        if isinstance(value, str):
            value = value.strip()
        if own == "description" and variable:
            return [(f"{variable}/long_name", value)]
        return [(name, value)]

    def steps(self, landed: LandedStep) -> Sequence[Parts]:
        """Return the same step with its date as time."""
        if landed.time == TIMES:
            return [landed.parts]
        return [{node: self._dated(step) for node, step in landed.parts.items()}]

    def _dated(self, step: Step) -> Step:
        layout = step.layout
        at = next((at for at in layout.singles if layout.forms[at].name == TIMES), None)
        if at is None:
            return step
        cut = self._cuts.get(layout)
        if cut is None:
            time = BlockForm(TIME, layout.forms[at].type, "GlobalValue", (), (), (), layout.forms[at].rank)
            kept = [(own, form) for own, form in enumerate(layout.forms) if own != at]
            cut = self._cuts[layout] = Cut.of(layout, [*kept, (NEW, time)])
        return cut.step(step, [step.values[layout.singles.index(at)]])
