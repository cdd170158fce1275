"""Which schema a stream is written by: one that is named, or one that recognises it."""

from collections.abc import Callable, Collection, Mapping
from functools import cache
from typing import Any

from bbflow.errors import ConfigError, nearest
from bbflow.schemas.lammps import Lammps
from bbflow.schemas.openpmd import OpenPmd
from bbflow.schemas.schema import Schema
from bbflow.schemas.scorpio import Scorpio
from bbflow.schemas.wrf import Wrf

ENTRY_POINTS = "bbflow.schemas"
"""Entry points of this group name schemas of installed packages: what makes one, called without arguments."""
NONE = "none"
"""In the configuration: the stream is taken as it is."""
OWN: Mapping[str, Callable[[], Schema]] = {
    "lammps": Lammps, "openpmd": OpenPmd, "scorpio": Scorpio, "wrf": Wrf,
}  # fmt: skip
"""Those of bbflow."""


@cache
def known() -> Mapping[str, Callable[[], Schema]]:
    """Return what makes each schema, by its name: those of installed packages come after bbflow's own."""
    from importlib.metadata import entry_points  # late: it takes as long as a step

    return {**OWN, **{item.name: item.load() for item in entry_points(group=ENTRY_POINTS) if item.name not in OWN}}


def named(name: str) -> Schema | None:
    """Return a schema by its name; None for `NONE`.

    Raises
    ------
    ConfigError
        If there is no such schema.
    """
    if name == NONE:
        return None
    if name not in known():
        raise ConfigError(f"schema: unknown schema {name!r}; {nearest(name, [*known(), NONE])}")
    return known()[name]()


def recognised(names: Collection[str], attributes: Mapping[str, Any]) -> Schema | None:
    """Find the schema that a stream is written by; None if no schema knows it.

    Parameters
    ----------
    names
        The variables of its first step.
    attributes
        Its attributes until then.

    Raises
    ------
    ConfigError
        If several do.
    """
    found = [schema for make in known().values() if (schema := make()).recognises(names, attributes)]
    if len(found) > 1:
        raise ConfigError(
            f"the stream looks as if it was written by {' and by '.join(schema.name for schema in found)}: set schema: "
            f"to one of them, or to {NONE}"
        )
    return found[0] if found else None
