"""How a quantity is shown: the unit a reader expects, and a colour map that suits it."""

from dataclasses import dataclass

from bbflow.report.canvas import Array

_LEAST = {"K": 100.0, "Pa": 5000.0}
"""Below these a value is no temperature, and no pressure of the lower air."""


@dataclass(frozen=True, slots=True)
class Display:
    """How one field is shown."""

    units: str
    """As written beside the scale."""
    factor: float
    """What the stored values are multiplied by."""
    offset: float
    """What is added then."""
    colours: str
    """Name of matplotlib's colour map."""
    symmetric: bool
    """Whether the scale's middle is zero."""

    def apply(self, values: Array) -> Array:
        """Convert stored values to the units shown."""
        return values * self.factor + self.offset


def choose_display(units: str, operator: str, lowest: float, highest: float, largest: float) -> Display:
    """Choose units and colours.

    Temperatures are shown in °C (their spread in K), pressures of the air in hPa, water fluxes in
    mm a day. Sums and counts keep their stored unit. Fields with both signs get a diverging map.
    What is small for its unit is something else (a temperature difference in K, a stress in Pa)
    and is shown as it is stored.

    Parameters
    ----------
    units
        CF units of the stored values.
    operator
        mean, std, min, max, sum, count, …
    lowest, highest
        Range of the stored values.
    largest
        Largest magnitude of all statistics of the variable.
    """
    both_signs = min(-lowest, highest) > 0.05 * max(-lowest, highest)
    if operator == "count":
        return Display("values", 1.0, 0.0, "cividis", False)
    if largest < _LEAST.get(units, 0.0):
        return _plain(units, operator, both_signs)
    if operator == "std":
        shown, factor, _ = _convert(units, absolute=False)
        return Display(pretty_units(shown), factor, 0.0, "PuRd", False)
    if operator == "sum" or units not in _COLOURS:
        return _plain(units, operator, both_signs)
    shown, factor, offset = _convert(units, absolute=True)
    return Display(pretty_units(shown), factor, offset, _COLOURS[units], False)


def pretty_units(units: str) -> str:
    """Write CF units as print does: ``kg m-2 s-1`` becomes kg m⁻² s⁻¹, and ``1``, which is none, nothing."""
    if units.strip() == "1":
        return ""
    superscripts = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
    words = []
    for word in units.split():
        letters = word.rstrip("-0123456789").removesuffix("^").removesuffix("**")
        exponent = word.removeprefix(letters).lstrip("^*")
        words.append(letters + exponent.translate(superscripts) if letters else word)
    return " ".join(words)


_COLOURS = {
    **dict.fromkeys(("K", "degC", "celsius", "Celsius", "degrees_celsius"), "RdYlBu_r"),
    **dict.fromkeys(("kg m-2 s-1", "kg m**-2 s**-1", "mm day-1", "mm/day", "mm"), "YlGnBu"),
    **dict.fromkeys(("kg kg-1", "g kg-1", "%"), "GnBu"),
    **dict.fromkeys(("Pa", "hPa"), "viridis"),
}


def _plain(units: str, operator: str, both_signs: bool) -> Display:
    symmetric = both_signs and operator != "std"
    known = _COLOURS.get(units, "viridis") if units not in _LEAST else "viridis"
    colours = "PuRd" if operator == "std" else "RdBu_r" if symmetric else known
    return Display(pretty_units(units), 1.0, 0.0, colours, symmetric)


def _convert(units: str, absolute: bool) -> tuple[str, float, float]:
    if units == "K" and absolute:
        return "°C", 1.0, -273.15
    if units in ("degC", "celsius", "Celsius", "degrees_celsius"):
        return ("°C" if absolute else "K"), 1.0, 0.0
    if units == "Pa":
        return "hPa", 0.01, 0.0
    if units in ("kg m-2 s-1", "kg m**-2 s**-1"):
        return "mm day-1", 86400.0, 0.0
    if units == "kg kg-1":
        return "g kg-1", 1000.0, 0.0
    return units, 1.0, 0.0
