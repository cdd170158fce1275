"""What holds for all stages of a run, from its begin to its end."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bbflow.configuring.settings import Config
from bbflow.events import EventLog
from bbflow.net.contact import NodeAddress
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
