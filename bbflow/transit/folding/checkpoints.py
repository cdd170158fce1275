"""Checkpoints: what each node stores with the fold's cursor, and what those of all nodes tell together."""

from collections.abc import Iterator, Mapping

from bbflow.transit.folding.losses import AttendanceRecord, LossesRecord, Untimely
from bbflow.transit.folding.shards import ShardState
from bbflow.transit.folding.timeline import TimelineRecord
from bbflow.transit.folding.written import Written, unpack
from bbflow.transit.outcome import Outcome
from bbflow.view.consumers import Cursor


class Checkpoint(Written, frozen=True, kw_only=True):
    """What a node stores; of its own states, and of the fold as a whole."""

    states: Mapping[str, tuple[ShardState, ...]] = {}
    """The digest of each of the node's rosters to its shards' states."""
    nodes: frozenset[str] = frozenset()
    """All nodes that have states."""
    timeline: TimelineRecord = TimelineRecord()
    """The spans that are alive."""
    errors: Mapping[str, str] = {}
    """What failed in users' operators."""
    offset: int | None = None
    """Steps of the runs before, in a chain of jobs; None if that isn't known yet."""
    last_number: int = -1
    """Number of the last step that was folded, counted through a chain of jobs."""
    untimely: Untimely = Untimely()
    """What times that can't be used have cost."""
    losses: LossesRecord = LossesRecord()
    """What nodes that are gone have cost."""
    attendance: AttendanceRecord = AttendanceRecord()
    """Which fields some steps have lacked."""
    settled: Mapping[str, tuple[int, str]] = {}
    """Diagnostic whose blocks have moved to the last step that was saved of it, and the file."""
    outcome: Outcome | None = None
    """How the stream ended, once nothing is left to do."""


Checkpoints = Mapping[str, tuple[int, Checkpoint]]
"""Node to how far it is folded, and its checkpoint; without those that have none yet."""


def read_checkpoints(cursors: Mapping[str, Cursor]) -> Checkpoints:
    """Return the checkpoints that nodes have stored.

    Raises
    ------
    ConfigError
        If another version of bbflow has written one.
    """
    return {
        node: (step, unpack(packed, Checkpoint, f"the checkpoint on BB node {node}"))
        for node, (step, packed) in cursors.items()
        if packed
    }


def ended_before(checkpoints: Checkpoints) -> Outcome | None:
    """Return how a stream ended whose analysis had told some node so; None if it had not."""
    return next((found.outcome for found in _told(checkpoints) if found.outcome is not None), None)


def nodes_with_states(checkpoints: Checkpoints) -> set[str]:
    """Return the nodes on which any checkpoint knows of states."""
    return {node for checkpoint in _told(checkpoints) for node in checkpoint.nodes}


def settled_files(checkpoints: Checkpoints) -> dict[str, str]:
    """Return the newest state file that any checkpoint names, for each diagnostic whose blocks have moved."""
    newest: dict[str, tuple[int, str]] = {}
    for checkpoint in _told(checkpoints):
        for key, named in checkpoint.settled.items():
            newest[key] = max(newest.get(key, (-1, "")), named)
    return {key: path for key, (_, path) in newest.items()}


def named_rosters(checkpoints: Checkpoints) -> set[str]:
    """Return the digests of the rosters that any checkpoint names."""
    return {name for checkpoint in _told(checkpoints) for name in checkpoint.states}


def _told(checkpoints: Checkpoints) -> Iterator[Checkpoint]:
    return (checkpoint for _, checkpoint in checkpoints.values())
