"""Vertical coordinates of columns; of hybrid ones, what the first coefficient is multiplied by."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bbflow.errors import ConfigError
from bbflow.operators.steps import Array

PRESSURE, HEIGHT = "pressure", "height"
NUMBERS = frozenset(("", "1", "1.0", "-", "dimensionless", "none", "unitless"))
"""Units of what is a plain number."""
PRESSURES = {
    "Pa": ("pa", "pascal", "pascals", "n m-2", "n/m2", "kg m-1 s-2"),
    "hPa": ("hpa", "mb", "mbar", "mbars", "millibar", "millibars", "hectopascal", "hectopascals"),
    "kPa": ("kpa", "kilopascal", "kilopascals"),
    "dbar": ("dbar", "decibar", "decibars"),
    "bar": ("bar", "bars"),
    "atm": ("atm", "atmosphere"),
    "Torr": ("torr", "mmhg"),
}
"""Units of pressure, and how else they are written, in small letters."""
LENGTHS = {
    "m": ("m", "meter", "meters", "metre", "metres", "gpm"),
    "km": ("km", "kilometer", "kilometers", "kilometre", "kilometres"),
    "dam": ("dam", "gpdm"),
}
"""Units of height, and how else they are written, in small letters."""
LARGEST_PLAIN = 1.0
"""A first coefficient that is nowhere larger may be a plain number: CESM's and E3SM's are at most 0.3."""


@dataclass(frozen=True, slots=True)
class LevelCoordinate:
    """The vertical coordinate of each column."""

    kind: str
    """pressure, which grows towards the ground, or height."""
    a: str = ""
    """Variable of the first step: the coordinate is a * reference + b * surface. Empty if `field` has it."""
    b: str = ""
    """Another such variable."""
    reference: str | float | None = None
    """What `a` is multiplied by: a number, or a variable of the first step; None if attributes tell it."""
    surface: str = ""
    """Variable of each step on the same grid without levels: where the ground is. Empty if unknown."""
    field: str = ""
    """Variable of each step that has the coordinate of every point."""
    is_fixed: bool = False
    """Whether `surface` and `field` are in the first step only, and hold for all."""

    @property
    def fields(self) -> tuple[str, ...]:
        """Variables with values for each column or point."""
        return tuple(filter(None, (self.field, self.surface)))

    @property
    def of_first_step(self) -> tuple[str, ...]:
        """Variables of the first step."""
        reference = self.reference if isinstance(self.reference, str) else ""
        return tuple(filter(None, (self.a, self.b, reference, *(self.fields if self.is_fixed else ()))))


def reference_of(
    coordinate: LevelCoordinate,
    attributes: Mapping[str, Mapping[str, Any]],
    variables: Callable[[str], Array],
    a: Array,
) -> float:
    """Return what the first coefficient is multiplied by: as configured, else as `formula_terms` say.

    These are of the CF conventions 1.11, appendix D, for `atmosphere_hybrid_sigma_pressure_coordinate`: pressure is
    a * p0 + b * ps, or ap + b * ps. CESM and E3SM write the first form, and no units of `hyam`.

    Parameters
    ----------
    coordinate
        The column's, of two coefficients.
    attributes
        Variable to its attributes.
    variables
        Gives variables of the first step.
    a
        The first coefficient, one for each level or interface.

    Raises
    ------
    ConfigError
        If it is neither configured nor told, but coefficient and surface have other units, or the terms name others.
    """
    units = {name: _units(name, attributes, coordinate.kind) for name in (coordinate.a, coordinate.surface)}
    own, surface = units[coordinate.a], units[coordinate.surface]
    where = f"{coordinate.kind}: {coordinate.a}"
    known = PRESSURES if coordinate.kind == PRESSURE else LENGTHS
    if surface and surface not in known:
        raise ConfigError(
            f"{coordinate.kind}: surface: {coordinate.surface} is in {surface!r}, which is no {coordinate.kind}"
        )
    reference = coordinate.reference
    if reference is None:
        reference = _told(coordinate, attributes)
    if isinstance(reference, str):
        return _value_of(reference, coordinate, surface, attributes, variables)
    if reference is not None:
        return float(reference)
    if own is not None and own not in NUMBERS:
        if surface and own != surface:
            raise ConfigError(f"{where} is in {own!r}, but {coordinate.surface} in {surface!r}: both must be the same")
        return 1.0
    if not a.any():
        return 1.0  # a sigma coordinate
    if own is not None or np.abs(a).max() <= LARGEST_PLAIN:
        raise ConfigError(
            f"{where} is a plain number (up to {np.abs(a).max():g}), and nothing says what it is multiplied by: say "
            f"reference: P0, a variable or a number in the units of {coordinate.surface}; 1 if it is in these"
        )
    return 1.0


def _value_of(
    reference: str,
    coordinate: LevelCoordinate,
    surface: str | None,
    attributes: Mapping[str, Mapping[str, Any]],
    variables: Callable[[str], Array],
) -> float:
    """Return the value of the variable that a coefficient is multiplied by, in the units of the surface."""
    values = np.asarray(variables(reference), "f8")
    if values.size != 1:
        raise ConfigError(f"{reference!r} has {values.size} values, but 'reference' is one number")
    told = _units(reference, attributes, coordinate.kind)
    if told and surface and told != surface and told not in NUMBERS:
        raise ConfigError(
            f"{coordinate.kind}: reference: {reference} is in {told!r}, but {coordinate.surface} in {surface!r}: "
            f"say reference: NUMBER, in {surface!r}"
        )
    return float(values.reshape(()))


def _told(coordinate: LevelCoordinate, attributes: Mapping[str, Mapping[str, Any]]) -> str | None:
    """Return the variable that `formula_terms` say the first coefficient is multiplied by; None if they say none."""
    for name, own in attributes.items():
        terms = dict(re.findall(r"(\w+):\s*(\S+)", str(own.get("formula_terms", ""))))
        if coordinate.a not in (terms.get("a"), terms.get("ap")):
            continue
        if terms.get("b", coordinate.b) != coordinate.b:
            raise ConfigError(
                f"{coordinate.kind}: {name}:formula_terms have b: {terms['b']} beside {coordinate.a}, "
                f"not {coordinate.b}"
            )
        return terms.get("p0") if terms.get("a") == coordinate.a else None
    return None


def _units(name: str, attributes: Mapping[str, Mapping[str, Any]], kind: str) -> str | None:
    """Return a variable's units, those that are known as one writes them; None if they aren't told."""
    told = attributes.get(name, {}).get("units")
    if told is None:
        return None
    plain = str(told).strip()
    known = PRESSURES if kind == PRESSURE else LENGTHS
    return next((unit for unit, words in known.items() if plain.lower() in words), plain)
