"""What a stream's attributes say in terms of the CF conventions."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

DIMENSIONS = "_ARRAY_DIMENSIONS"
CF_VERSION = "CF-1.11"


@dataclass(frozen=True, slots=True)
class StreamAttributes:
    """Attributes by their ADIOS2 names, ``<variable>/<attribute>``; those without a slash are global."""

    values: Mapping[str, Any]
    """Name to value."""

    def of(self, variable: str) -> dict[str, Any]:
        """Give a variable's CF attributes, without what only describes its storage."""
        storage = {"_FillValue", "missing_value", DIMENSIONS}
        prefix = f"{variable}/"
        return {
            name.removeprefix(prefix): value
            for name, value in self.values.items()
            if name.startswith(prefix) and name.removeprefix(prefix) not in storage
        }

    @property
    def of_stream(self) -> dict[str, Any]:
        """Give the global attributes."""
        return {name: value for name, value in self.values.items() if "/" not in name}

    def fill_value(self, variable: str) -> float | int | None:
        """Give the value that stands for 'missing', if there is one."""
        for name in ("_FillValue", "missing_value"):
            value = self.values.get(f"{variable}/{name}")
            if isinstance(value, list | tuple):
                value = value[0] if value else None
            if isinstance(value, int | float):
                return value
        return None

    def dimensions(self, variable: str, rank: int) -> tuple[str, ...]:
        """Give a variable's dimension names.

        They are those of its attribute ``_ARRAY_DIMENSIONS`` (a list, or names with spaces between),
        else ``<variable>_dim0``, ``<variable>_dim1`` and so on.
        """
        named = self.values.get(f"{variable}/{DIMENSIONS}", ())
        names = tuple(named.split()) if isinstance(named, str) else tuple(named)
        return names if len(names) == rank else tuple(f"{variable}_dim{axis}" for axis in range(rank))
