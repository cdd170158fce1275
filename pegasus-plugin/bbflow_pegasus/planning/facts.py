"""What is known of a workflow that Pegasus plans: its jobs, and their files on the burst buffer."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from bbflow.errors import ConfigError
from bbflow.units import parse_bytes

PREFIX = "pegasus.bbflow."
"""Of the properties that are ours: the planner hands over only what begins with ``pegasus.``."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the waves are made for."""

    site: str
    """The burst buffer's site in the site catalog."""
    capacity_bytes: int
    """Room for files on it."""
    slots: int
    """Jobs that can run at once."""
    lookahead: int = 1
    """Waves that come ahead of the one that computes."""
    transfers: int = 2
    """Stage-in jobs, and stage-out jobs, of a wave."""
    prefix: str = ""
    """What ``pegasus-plan --job-prefix`` puts into the names of Pegasus's own jobs."""

    @property
    def mark(self) -> str:
        """What stands in the names of a wave's jobs."""
        return f"{self.prefix}{self.site}"


@dataclass(frozen=True, slots=True)
class ReplicaSource:
    """A file that Pegasus stages in to the burst buffer."""

    size_bytes: int | None
    """As the replica catalog or the workflow says it; None if neither does."""
    url: str
    """Where it is copied from."""


@dataclass(frozen=True, slots=True)
class Job:
    """A job that isn't one of Pegasus's own."""

    name: str
    """In the executable workflow."""
    inputs: tuple[str, ...] = ()
    """Logical names of files that it reads from the burst buffer."""
    outputs: tuple[str, ...] = ()
    """Logical names of files that it writes there."""
    results: tuple[str, ...] = ()
    """Those of the outputs that are staged out."""


@dataclass(frozen=True, slots=True)
class PlanFacts:
    """A workflow before it has waves."""

    jobs: Mapping[str, Job]
    """By name."""
    parents: Mapping[str, tuple[str, ...]]
    """By the name of a job, the jobs that it waits for."""
    sources: Mapping[str, ReplicaSource]
    """By logical name, what is staged in."""
    made_bytes: Mapping[str, int] = field(default_factory=dict)
    """By logical name, sizes of files that jobs make, as far as they are known."""


def limits_from(properties: Mapping[str, str]) -> Limits:
    """Read limits from a planner's properties.

    Raises
    ------
    ConfigError
        If one is missing or isn't a number.
    """
    for name in ("capacity", "slots"):
        if not properties.get(PREFIX + name):
            raise ConfigError(f"the property {PREFIX}{name} isn't set: let 'bbflow-pegasus config' set it")
    return Limits(
        properties.get(PREFIX + "site") or "bb",
        parse_bytes(properties[PREFIX + "capacity"]),
        _number(properties, "slots", 1),
        _number(properties, "lookahead", 1, least=0),
        _number(properties, "transfers", 2),
        properties.get(PREFIX + "prefix") or "",
    )


def _number(properties: Mapping[str, str], name: str, default: int, least: int = 1) -> int:
    text = properties.get(PREFIX + name) or str(default)
    if not text.isdecimal() or int(text) < least:
        raise ConfigError(f"the property {PREFIX}{name} is {text!r}: give a whole number from {least}")
    return int(text)
