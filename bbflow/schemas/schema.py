"""What a schema does: one Protocol, for those of bbflow and those of other packages."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from bbflow.records import Block, Step

Array = np.ndarray[Any, Any]
Parts = Mapping[str, Step]
"""Node name to what lies there of a step."""
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
    time: str = TIME
    """The variable that is to tell the time; another one than `TIME` if the configuration says so."""


class Schema(Protocol):
    """Conventions by which some programs write; an object is of one stream.

    What it gives is all that planning, fold, drain, views, rescue and report see. It is asked once for what is the same
    in all steps that lie alike, if it keeps that by their layouts (`Layout` objects are the same for steps that do).
    """

    name: str
    """In the configuration, as ``schema: NAME``."""
    needs_all: bool
    """Whether it must see the parts of all nodes together: frames that one rank numbers, blocks that follow each other
    over the ranks."""

    def recognises(self, names: Collection[str], attributes: Mapping[str, Any]) -> bool:
        """Say whether a stream is written by these conventions.

        Parameters
        ----------
        names
            The variables of its first step, or of the first one after a restart.
        attributes
            Its attributes until then.
        """

    def attributes(self, name: str, value: Any) -> Sequence[tuple[str, Any]]:
        """Return what an attribute is by CF's conventions: ``<variable>/<attribute>`` and value of each, or nothing.

        The variables of a step's attributes are known by then: `steps` has been asked for it.
        """

    def steps(self, landed: LandedStep) -> Sequence[Parts]:
        """Give the steps of the stream that lie in a step that has landed: one, or as many as it has frames.

        Their numbers don't matter yet. Each has on each node what `Cut` makes of what lies there: blocks stay where
        they are. A single value named `TIME` tells the time.

        Raises
        ------
        StreamError
            If the step isn't as the conventions have it.
        """
