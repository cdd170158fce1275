"""The begin of a run that continues from another one's state."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from bbflow.configuring.settings import Config
from bbflow.errors import StreamError
from bbflow.transit.chain.comparing import check_continued
from bbflow.transit.chain.saved import SavedState, read_state
from bbflow.transit.folding.bookkeeping import Folding
from bbflow.transit.outcome import Outcome
from bbflow.transit.output.claiming import KEPT_FILE
from bbflow.transit.states.checkpoints import (
    ended_before,
    named_rosters,
    nodes_with_states,
    read_checkpoints,
    settled_files,
)
from bbflow.transit.states.tables import RosterFiles
from bbflow.view.consumers import FOLD, Consumers, Cursor


def begin(config: Config, consumers: Consumers, *, folds: bool) -> tuple[Outcome | None, SavedState | None]:
    """Find where an analysis before this one has come to, and what an earlier run has left.

    Parameters
    ----------
    config
        The run's configuration.
    consumers
        What the nodes have of earlier analyses; their checkpoints go where one of these came to its end.
    folds
        Whether further steps are folded.

    Returns
    -------
    tuple
        How the stream ended, if an analysis had come to its end and then died; and the state of the run that this one
        continues from, if it does.

    Raises
    ------
    StreamError
        If a node that had states has lost them; else as `take_over`.
    """
    checkpoints = read_checkpoints(consumers.of(FOLD))
    ended = ended_before(checkpoints)
    if ended is not None:
        consumers.forget_checkpoints()
    elif folds and (emptied := sorted(nodes_with_states(checkpoints) & {*consumers.new})):
        raise StreamError(
            f"BB node {' and '.join(emptied)} came back without what it held of stream {config.stream!r}: "
            "its directory was removed, or its host was started again"
        )
    return ended, take_over(config, consumers.of(FOLD))


def take_over(config: Config, cursors: Mapping[str, Cursor]) -> SavedState | None:
    """Open the state that a run continues from, if it does.

    Parameters
    ----------
    config
        The run's configuration.
    cursors
        How far each node is folded: an analysis that continues after a crash starts from the same state as before.

    Raises
    ------
    ConfigError
        If there is no such state, or it is of another configuration.
    DamagedError
        If it is damaged.
    """
    if config.continued is None:
        return None
    kept = config.output / KEPT_FILE
    if not any(checkpoint for _, checkpoint in cursors.values()):
        keep_state(check_continued(config, config.continued).path, kept)
    return read_state(kept)


def carried_on(config: Config, cursors: Mapping[str, Cursor], saved: SavedState | None = None) -> Folding:
    """Return the fold as it was when the nodes stored their last checkpoints, or as it begins.

    Parameters
    ----------
    config
        The run's configuration.
    cursors
        For each node, how far it is folded and the checkpoint stored with that.
    saved
        What an earlier run has left, if this one continues from it.
    """
    checkpoints = read_checkpoints(cursors)
    settled = {key: read_state(Path(path)).inherited(key) for key, path in settled_files(checkpoints).items()}
    files = RosterFiles(config.output)
    rosters = {name: files.read(name) for name in named_rosters(checkpoints)}
    return Folding(config, cursors, saved.before if saved else None, settled, rosters)


def keep_state(source: Path, target: Path) -> None:
    """Link a state file under a second name, or copy it where that can't be done."""
    temporary = target.with_name(f"{target.name}.new")
    temporary.unlink(missing_ok=True)
    try:
        os.link(source, temporary)
    except OSError:
        shutil.copyfile(source, temporary)
    temporary.replace(target)  # does nothing to two names of one file
    temporary.unlink(missing_ok=True)
