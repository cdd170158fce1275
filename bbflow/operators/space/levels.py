"""Levels as the configuration writes them: what is made of each column, and which coordinate its values have."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bbflow.errors import ConfigError
from bbflow.operators.space.vertical import HEIGHT, PRESSURE, LevelCoordinate
from bbflow.reading.sections import check_keys, flag, number, one_of, text

TO, MEAN, INTEGRAL, DERIVATIVE = "to", "mean", "integral", "derivative"
MAKES = (TO, MEAN, INTEGRAL, DERIVATIVE)
"""What can be made of a column."""
MISSING = "missing"
"""What there is beyond a column, if nothing else is said."""


@dataclass(frozen=True, slots=True)
class Levels:
    """Makes other levels, or one value, of each column. It comes before all other moves."""

    make: str
    """One of `MAKES`."""
    to: tuple[float, ...] = ()
    """Coordinates that values are wanted at, in the coordinate's units."""
    coordinate: LevelCoordinate | None = None
    """The column's; None for that of the dimension itself."""
    is_log: bool = False
    """Whether interpolation is linear in the coordinate's logarithm."""
    above: str = MISSING
    """What there is above the highest level: missing or linear."""
    below: str = MISSING
    """What there is below the ground: missing or lowest, the value of the lowest level."""

    @property
    def variables(self) -> tuple[str, ...]:
        """Variables that each step must have besides the field's own."""
        coordinate = self.coordinate
        return () if coordinate is None or coordinate.is_fixed else coordinate.fields


KEYS = ("to", "make", PRESSURE, HEIGHT, "log", "above", "below")
COORDINATE_KEYS = ("a", "b", "reference", "surface", "field", "fixed")


def parse_levels(content: Mapping[Any, Any]) -> Levels:
    """Make levels of a map such as ``{to: [85000], pressure: {a: hyam, b: hybm, surface: ps}}``.

    Raises
    ------
    ConfigError
        If a key is unknown, or what it says is wrong.
    """
    check_keys(content, KEYS)
    if ("to" in content) == ("make" in content):
        raise ConfigError("say either to: [85000, 50000], or make: mean, integral or derivative")
    make = one_of(*MAKES[1:])(content["make"]) if "make" in content else TO
    kinds = [kind for kind in (PRESSURE, HEIGHT) if kind in content]
    if len(kinds) > 1:
        raise ConfigError("pressure and height: a column has one coordinate")
    coordinate = _coordinate(kinds[0], content[kinds[0]]) if kinds else None
    for key in ("log", "above", "below"):
        if key in content and make != TO:
            raise ConfigError(f"{key!r} has no effect here: it belongs to 'to'")
    levels = Levels(
        make,
        _targets(content["to"]) if make == TO else (),
        coordinate,
        flag(content.get("log", False)),
        one_of(MISSING, "linear")(content.get("above", MISSING)),
        one_of(MISSING, "lowest")(content.get("below", MISSING)),
    )
    _check(levels)
    return levels


def _targets(value: Any) -> tuple[float, ...]:
    items = value if isinstance(value, list | tuple) else [value]
    targets = tuple(float(number(item)) for item in items)
    if not targets or len(set(targets)) < len(targets):
        raise ConfigError(f"to: {value!r} must be levels, each once")
    return targets


def _check(levels: Levels) -> None:
    coordinate = levels.coordinate
    if levels.is_log and (coordinate is None or coordinate.kind != PRESSURE):
        raise ConfigError("log: interpolation in the logarithm is that of a pressure")
    if coordinate is not None and coordinate.kind == PRESSURE and any(target <= 0 for target in levels.to):
        raise ConfigError(f"to: {min(levels.to):g} is no pressure")
    if levels.make in (MEAN, INTEGRAL) and (coordinate is None or not coordinate.a):
        raise ConfigError(
            f"make: {levels.make} weighs layers by what is between their interfaces: name these, such as pressure: "
            "{a: hyai, b: hybi, surface: ps}; where the dimension's own bounds tell the thickness, take "
            f"{'vertmean' if levels.make == MEAN else 'vertint'}"
        )


def _coordinate(kind: str, value: Any) -> LevelCoordinate:
    if isinstance(value, str):
        return LevelCoordinate(kind, field=text(value))
    if not isinstance(value, Mapping):
        raise ConfigError(f"{kind}: {value!r} is neither a variable's name nor a map such as {{a: hyam, b: hybm, …}}")
    check_keys(value, COORDINATE_KEYS)
    names = {key: text(value[key]) for key in ("a", "b", "surface", "field") if key in value}
    is_hybrid, has_all = names.keys() & {"a", "b"}, names.keys() >= {"a", "b", "surface"}
    if (is_hybrid and (not has_all or "field" in names)) or (not is_hybrid and "field" not in names):
        raise ConfigError(f"{kind}: name a, b and surface ({kind} is a + b * surface), or the field that has it")
    reference = value.get("reference")
    if "reference" in value and not is_hybrid:
        raise ConfigError(f"{kind}: 'reference' has no effect here: it multiplies 'a'")
    is_name = isinstance(reference, str) and not _is_number(reference)
    return LevelCoordinate(
        kind,
        **names,
        reference=reference if reference is None else text(reference) if is_name else number(reference),
        is_fixed=flag(value.get("fixed", False)),
    )


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True
