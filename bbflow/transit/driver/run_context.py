"""What holds for all stages of a run, from its begin to its end, and what they are told of its stream."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bbflow.configuring.settings import Config
from bbflow.events import EventLog
from bbflow.net.contact import NodeAddress
from bbflow.operators.windows.calendars import Clock
from bbflow.stream.cf import StreamAttributes
from bbflow.stream.records import Parts
from bbflow.transit.clusters.cluster import Cluster
from bbflow.view.consumers import Consumers
from bbflow.view.stream import StreamView


@dataclass(frozen=True, slots=True)
class Running:
    """What a run is given, and where it tells what it does."""

    config: Config
    """The run's configuration, as it was given; `Folding.config` is what is computed now."""
    contact: Path
    """Where the nodes are."""
    nodes: Mapping[str, NodeAddress]
    """Addresses by name."""
    cluster: Cluster
    """Where tasks run."""
    consumers: Consumers
    """Where cursors are kept."""
    capacity: int
    """Bytes of the smallest pool."""
    view: StreamView
    """The stream over all nodes."""
    log: EventLog
    """Gets an event for each batch and each window."""
    wake: Callable[[], None]
    """Called, in another thread, when a task is done."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What is known of a stream by now besides its steps, handed to each stage."""

    attributes: StreamAttributes
    """As far as they are known."""
    clock: Clock
    """The stream's calendar."""
    time_of: Callable[[int, Parts], float | None]
    """Returns the time of a step, in the stream's units, from its number and its parts."""
    shown: Sequence[tuple[str, int]] = ()
    """Spans of results that were shown since the last look, perhaps again: window, and place on its axis."""
    drained: float = -1
    """All is drained up to this step."""
    is_plain: bool = True
    """Whether steps are taken as they land."""
