"""What a name that people know means, in the configuration's own terms."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class Meaning:
    """The parts of a diagnostic that a name says; what it doesn't say is empty."""

    operator: Any = None
    """An operator, as the configuration writes it: ``mean`` or ``{std: {ddof: 1}}``."""
    window: Any = None
    """Its window: ``month`` or ``{running: {days: 5}}``."""
    space: Any = None
    """A space: ``fldmean``."""
    transform: Any = None
    """A transform: ``cumsum``."""
    each: Any = None
    """An inner statistic: ``{window: day, operator: max}``."""
    then: str | None = None
    """An expression of `value`: ``value * 86400``."""
    attributes: Mapping[str, str] = field(default_factory=dict)
    """CF attributes of the field that the operator gets."""
    weights: str | None = None
    """What its steps are weighted by: ``month``."""
    units: str | None = None
    """Units that the variable is taken to have; None if any will do, or the configuration tells them."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Fields of files, and parts of the date, for `then`."""

    @property
    def parts(self) -> dict[str, Any]:
        """The diagnostic's keys with what it says of them, the operator apart."""
        keys = {"window": "windows", "transform": "transforms"}
        said = {item.name: getattr(self, item.name) for item in fields(self) if item.name != "operator"}
        return {
            keys.get(name, name): [value] if name in keys else value
            for name, value in said.items()
            if value not in (None, {})
        }


@dataclass(frozen=True, slots=True)
class Name:
    """A name that people know."""

    name: str
    """As they write it, without what follows it."""
    summary: str
    """What it computes, in a few words."""
    make: Callable[..., Meaning]
    """Makes the meaning of what follows the name: numbers or words after commas, or the value of a map."""
    example: str
    """How the configuration writes it."""
    takes: tuple[str, ...] = ()
    """What must follow the name, in order, for the message."""
    may_take: tuple[str, ...] = ()
    """What may follow after that."""
    one_value: bool = False
    """Whether a list or map is one value, as in xarray's calls, and not several."""
