"""Checkpoints: what each node stores with the fold's cursor, and what those of all nodes tell together."""

from collections.abc import Iterator, Mapping

from msgspec import structs

from bbflow.transit.outcome import Outcome
from bbflow.transit.spans.timeline import Passed, Timeline, Windows
from bbflow.transit.states.inherited import Before, Inherited
from bbflow.transit.states.losses import Attendance, Losses, Untimely
from bbflow.transit.states.shards import ShardState
from bbflow.transit.states.tables import CountedStates, Roster, States
from bbflow.transit.states.written import Written, unpack
from bbflow.view.consumers import Cursor


class Checkpoint(Written, frozen=True, kw_only=True):
    """What a node stores; of its own states, and of the fold as a whole."""

    states: Mapping[str, tuple[ShardState, ...]] = {}
    """The digest of each of the node's rosters to its shards' states."""
    nodes: frozenset[str] = frozenset()
    """All nodes that have states."""
    timeline: Timeline = Timeline()
    """The spans that are alive."""
    errors: Mapping[str, str] = {}
    """What failed in users' operators."""
    offset: int | None = None
    """Steps of the runs before, in a chain of jobs; None if that isn't known yet."""
    last_number: int = -1
    """Number of the last step that was folded, counted through a chain of jobs."""
    untimely: Untimely = Untimely()
    """What times that can't be used have cost."""
    losses: Losses = Losses()
    """What nodes that are gone have cost."""
    attendance: Attendance = Attendance()
    """Which fields some steps have lacked."""
    settled: Mapping[str, tuple[int, str]] = {}
    """Diagnostic whose blocks have moved to the last step that was saved of it, and the file."""
    outcome: Outcome | None = None
    """How the stream ended, once nothing is left to do."""

    def in_chain(self, number: int) -> int:
        """Return a step's number as it is counted through a chain of jobs; it may be this run's first that counts."""
        return self.last_number + 1 if self.offset is None else number + self.offset

    def begun(self, number: int) -> "Checkpoint":
        """Return the same once a step counts: the first one tells where in the chain the others are."""
        return self if self.offset is not None else structs.replace(self, offset=self.in_chain(number) - number)


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


def first_checkpoint(windows: Windows, interval: float | None, before: Before | None) -> Checkpoint:
    """Return what holds before a run's first step.

    Parameters
    ----------
    windows
        Those that steps are in.
    interval
        Time between two steps, if it is configured.
    before
        What an earlier run has left, if this one continues it.
    """
    if before is None:
        return Checkpoint(timeline=Timeline(numbers=Passed(interval)).of(windows), offset=0)
    timeline = before.timeline.of(windows).going_on(interval)
    return Checkpoint(timeline=timeline, errors=before.errors, last_number=before.number)


def common_of(checkpoints: Checkpoints, cursor: int, first: Checkpoint, windows: Windows) -> Checkpoint:
    """Return what holds of all nodes together at the lowest of their cursors; `first` if none has told of that.

    After a crash nodes may be at different steps. Folding continues from the lowest one, and what is known of all nodes
    together must be as it was there; each shard knows by itself how far it is.
    """
    common, errors = first, dict(first.errors)
    for step, checkpoint in checkpoints.values():
        if step == cursor:
            common = checkpoint
            errors |= checkpoint.errors
    counted = [Attendance(), *(checkpoint.attendance for checkpoint in _told(checkpoints))]
    return Checkpoint(
        timeline=common.timeline.of(windows),
        errors=errors,
        offset=common.offset,
        last_number=common.last_number,
        untimely=common.untimely,
        losses=common.losses,
        attendance=max(counted, key=lambda own: own.last),
    )


def counted_states(
    checkpoints: Checkpoints, rosters: Mapping[str, Roster], settled: Mapping[str, Inherited]
) -> CountedStates:
    """Return the states that count, but for those that have gone into what was settled after their node's commit.

    Parameters
    ----------
    checkpoints
        Those that name states.
    rosters
        Those that they name, by their digests.
    settled
        Diagnostic to what was saved of it before its blocks moved.
    """
    found = CountedStates()
    for checkpoint in _told(checkpoints):
        gone = {key for key, own in settled.items() if checkpoint.settled.get(key) != (own.number, own.path)}
        for name, alike in checkpoint.states.items():
            table = States(rosters[name], alike).without(gone)
            if table.count:
                found.put(table)
    return found


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
