"""What a schema does: one Protocol, for those of bbflow and those of other packages."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from bbflow.stream.point_maps import PointMap
from bbflow.stream.records import Block, Parts

Array = np.ndarray[Any, Any]
TIME = "time"
"""The single value with which a schema tells a step's time: a number, whose units are in ``time/units``, or a date."""


@dataclass(frozen=True, slots=True)
class LandedStep:
    """A step as the program has put it."""

    parts: Parts
    """What lies of it on each node; on one alone, if the schema doesn't need all of them together."""
    read: Callable[[str, int, Block], Array]
    """Reads an array block: the node's name, ADIOS2's number of the step, the block."""
    attributes: Mapping[str, Any]
    """Attributes of the stream as they are known, as the program has named them."""
    folder: Path | None = None
    """Where maps of points are kept."""
    time: str = TIME
    """The variable that is to tell the time; another one than `TIME` if the configuration says so."""


class Schema(Protocol):
    """Conventions by which some programs write; an object is of one stream.

    What it gives is all that planning, fold, drain, views, rescue and report see. It is asked once for what is the same
    in all steps that lie alike, if it keeps that by their layouts (`Layout` objects are the same for steps that do).
    """

    @property
    def name(self) -> str:
        """In the configuration, as ``schema: NAME``."""

    @property
    def needs_all(self) -> bool:
        """Whether it must see the parts of all nodes together.

        So it is with frames that one rank numbers, and blocks that follow each other over the ranks.
        """

    @property
    def maps(self) -> Mapping[str, PointMap]:
        """Variable to where its points lie, of those whose blocks have them in an order of their own."""

    def recognises(self, names: Collection[str], attributes: Mapping[str, Any]) -> bool:
        """Return whether a stream is written by these conventions.

        Parameters
        ----------
        names
            The variables of its first step, or of the first one after a restart; none if all that have landed are gone.
        attributes
            Its attributes until then.
        """

    def call(self, names: Collection[str]) -> None:
        """Learn which variables the configuration names: one that it names as the program does keeps that name."""

    def attributes(self, name: str, value: Any) -> Sequence[tuple[str, Any]]:
        """Return what an attribute is by CF's conventions: ``<variable>/<attribute>`` and value of each, or nothing.

        The variables of a step's attributes are known by then: `steps` has been asked for it.
        """

    def memory(self) -> bytes:
        """Return what later steps don't tell again, for an analysis that continues after a crash."""

    def remember(self, memory: bytes) -> None:
        """Continue with the `memory` of another object of the same stream."""

    def found(self, through: int, told: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return attributes that lie in the values of steps, also of those that it remembers.

        Parameters
        ----------
        through
            The last landed step that counts.
        told
            The program's attributes; it renames them as they are to be named.
        """

    def steps(self, landed: LandedStep) -> Sequence[Parts]:
        """Return the steps of the stream that lie in a step that has landed: one, or as many as it has frames.

        Their numbers don't matter yet. Each has on each node what `Cut` makes of what lies there: blocks stay where
        they are. A single value named `TIME` tells the time.

        Raises
        ------
        StreamError
            If the step isn't as the conventions have it.
        """


class Stateless:
    """What schemas have in common whose steps each tell all, and whose blocks have their points in order."""

    __slots__ = ()

    @property
    def maps(self) -> Mapping[str, PointMap]:
        """Return nothing: points lie where their blocks say."""
        return {}

    def call(self, names: Collection[str]) -> None:
        """Take nothing: each variable has one name."""

    def memory(self) -> bytes:
        """Return nothing."""
        return b""

    def remember(self, memory: bytes) -> None:
        """Take nothing."""

    def found(self, through: int, told: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return nothing: all attributes are written as attributes."""
        return {}
