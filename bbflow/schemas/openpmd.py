"""openPMD: an iteration's number in the variables' names, meshes with labelled axes, time as an attribute."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bbflow.reading.wire_types import Attribute
from bbflow.schemas.cutting import NEW, Cut
from bbflow.schemas.schema import TIME, LandedStep, Stateless
from bbflow.stream.attributes import items_of, numbers_of
from bbflow.stream.cf import DIMENSIONS
from bbflow.stream.layouts import BlockForm, Layout
from bbflow.stream.records import Parts, Step

NUMBERED = re.compile(r"(/data/)(\d+)(/.+)")
"""A name in an iteration's group, as the group-based and the file-based encoding have it (basePath ``/data/%T/``)."""
ITERATION = "{iteration}"
"""Stands for the number in the names of variables."""
VERSION = "/openPMD"
"""Attribute with the version of the standard, in every stream that openPMD-api writes."""
INTERNAL = "__openPMD_"
"""Begins the names of attributes that openPMD-api keeps for itself."""
SI = ("m", "kg", "s", "A", "K", "mol", "cd")
"""Units of the seven exponents of `unitDimension`."""
_MOST_CUTS = 64
"""Kept at once: names that have a number in them are cut once each."""


@dataclass(slots=True)
class OpenPmd(Stateless):
    """Series of openPMD-api, or of programs that name variables as it does, in any of the three iteration encodings.

    By the standard 1.1.0 (https://github.com/openPMD/openPMD-standard), `axisLabels` of a mesh are the dimensions of
    its components, `unitSI` and `unitDimension` together are the unit of their values, and `time` times `timeUnitSI` is
    the time of an iteration in seconds.
    """

    name: str = "openpmd"
    needs_all: bool = False
    _cuts: dict[Layout, Cut] = field(default_factory=dict)
    _components: set[str] = field(default_factory=set)
    _labels: dict[str, Sequence[Any]] = field(default_factory=dict)
    _scales: dict[str, float] = field(default_factory=dict)
    _exponents: dict[str, Sequence[float]] = field(default_factory=dict)

    def recognises(self, names: Collection[str], attributes: Mapping[str, Any]) -> bool:
        """Return whether a stream has openPMD's version, or an iteration's number in a variable's name."""
        return VERSION in attributes or any(NUMBERED.fullmatch(name) for name in names)

    def attributes(self, name: str, value: Any) -> Sequence[tuple[str, Any]]:
        """Return an attribute without the iteration's number; those of a mesh or record, for its components too."""
        if name.startswith(INTERNAL):
            return []
        owner, _, own = without_number(name).rpartition("/")
        if own == "axisLabels":
            self._labels[owner] = list(items_of(value))
            return [(f"{each}/{DIMENSIONS}", self._labels[owner]) for each in self._components_of(owner)]
        found, numbers = [(f"{owner}/{own}", value)], numbers_of(value)
        if own == "unitDimension" and numbers:
            self._exponents[owner] = numbers
            return found + [self._unit(each) for each in self._components_of(owner)]
        if own == "unitSI" and numbers:
            self._scales[owner] = numbers[0]
            return [*found, self._unit(owner)] if self._exponents_of(owner) else found
        return found

    def _unit(self, component: str) -> tuple[str, str]:
        return f"{component}/units", unit_of(self._exponents_of(component), self._scales.get(component, 1.0))

    def _exponents_of(self, component: str) -> Sequence[float]:
        return self._exponents.get(component) or self._exponents.get(component.rpartition("/")[0], ())

    def _components_of(self, record: str) -> list[str]:
        return sorted(name for name in self._components if name == record or name.rpartition("/")[0] == record)

    def steps(self, landed: LandedStep) -> Sequence[Parts]:
        """Return the step without the iteration's number in its names, and with its time in seconds."""
        return [{node: self._unnumbered(step, landed) for node, step in landed.parts.items()}]

    def _unnumbered(self, step: Step, landed: LandedStep) -> Step:
        layout, known = step.layout, set(self._components)
        times = [] if landed.time != TIME else _times(layout, landed.attributes)
        cut = self._cuts.get(layout)
        if cut is None or len(cut.values) != len(layout.singles) + len(times):
            cut = self._cut(layout, with_time=bool(times))
        # Attributes of a record went to the components that were known: those that are new lack what was told before.
        owners = {owner for own in self._components - known for owner in (own, own.rpartition("/")[0])}
        told = [*_told("axisLabels", self._labels, owners), *_told("unitDimension", self._exponents, owners)]
        return cut.step(replace(step, attributes=(*told, *step.attributes)) if told else step, times)

    def _cut(self, layout: Layout, *, with_time: bool) -> Cut:
        forms = [(at, replace(form, name=without_number(form.name))) for at, form in enumerate(layout.forms)]
        self._components.update(form.name for _, form in forms)
        if with_time:
            forms.append((NEW, BlockForm(TIME, "double", "GlobalValue", (), (), (), layout.forms[0].rank)))
        if len(self._cuts) >= _MOST_CUTS:
            self._cuts.clear()
        cut = self._cuts[layout] = Cut.of(layout, forms)
        return cut


def _told(own: str, values: Mapping[str, Sequence[Any]], owners: Collection[str]) -> Iterator[Attribute]:
    """Yield again what records have told."""
    yield from (Attribute(f"{owner}/{own}", "", list(value)) for owner, value in values.items() if owner in owners)


def without_number(name: str) -> str:
    """Return a name with `ITERATION` instead of the number of its iteration."""
    match = NUMBERED.fullmatch(name)
    return f"{match[1]}{ITERATION}{match[3]}" if match else name


def unit_of(exponents: Sequence[float], scale: float) -> str:
    """Return the unit of values that are to be multiplied to be in SI's, as UDUNITS writes it: ``1e-06 m kg s-3 A-1``.

    Parameters
    ----------
    exponents
        Of SI's seven base units; all 0 for a number.
    scale
        What values are to be multiplied by.
    """
    powers = [
        f"{unit}{'' if power == 1 else f'{power:g}'}" for unit, power in zip(SI, exponents, strict=False) if power
    ]
    return " ".join([*([] if scale == 1 and powers else [f"{scale:g}"]), *powers])


def _times(layout: Layout, attributes: Mapping[str, Any]) -> list[float]:
    """Return the time of a step's iteration, as far as its attributes tell it."""
    numbers = {match[2] for form in layout.forms if (match := NUMBERED.fullmatch(form.name))}
    base = f"/data/{next(iter(numbers))}" if len(numbers) == 1 else "/data"
    time, unit = (numbers_of(attributes.get(f"{base}/{key}", ())) for key in ("time", "timeUnitSI"))
    return [float(time[0]) * float(unit[0] if unit else 1.0)] if time else []
