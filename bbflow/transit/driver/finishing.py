"""The end of a stream: the rest is published, results say what they lack, and the stages tell what came of it."""

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bbflow.configuring.settings import Config
from bbflow.landing.absent import Absent, absent_ranks
from bbflow.landing.replies import StreamStatus
from bbflow.transit.driver.stage import Running, StageReport
from bbflow.transit.folding.bookkeeping import Folding
from bbflow.transit.outcome import Outcome, mark_incomplete
from bbflow.transit.output.copying import RESULTS, Copying
from bbflow.transit.spans.lengths import taken_alike
from bbflow.view.stream import described_discards, told_refusal

NOT_CLOSED = "the simulation ended without closing the stream"
NO_STEP = "the stream ended without a whole step, so nothing that was asked for is there"


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """How a stream's results end."""

    failures: tuple[str, ...]
    """What went wrong with the stream itself."""
    lacking: tuple[str, ...]
    """Diagnostics that were asked for and aren't there."""
    complete: bool
    """Whether the results have all."""

    @property
    def status(self) -> str:
        """The results' attribute."""
        return "complete" if self.complete else "incomplete"


def end_of(
    run: Running,
    folding: Folding,
    stopped: str,
    misplaced: Sequence[str],
    lacking: Sequence[str],
    *,
    folds: bool,
    is_empty: bool,
) -> StreamEnd:
    """Return how a stream's results end, once all of it is published.

    Parameters
    ----------
    run, folding
        The run and its fold.
    stopped
        Why the simulation was asked to end; empty if it wasn't.
    misplaced
        What has changed by which fields were placed, in words.
    lacking
        What was asked for and isn't there, in words.
    folds
        Whether further steps would have been folded.
    is_empty
        Whether nothing was folded, though something was to be.
    """
    view = run.view
    # A simulation that was asked to end has no further steps, also if it didn't close its stream. Ranks that are on no
    # node that is left may have closed theirs on the one that was lost: what that costs is told of their points.
    is_excused = bool(stopped) or (
        bool(folding.common.losses.nodes) and _absent(run, run.consumers.statuses()) is not None
    )
    ended = view.status == "closed" or (view.status == "aborted" and is_excused)
    failures = (*view.refused, *(() if ended else (NOT_CLOSED,)), *misplaced)
    dropped = described_discards(view.discarded, max(folding.cursor, view.frontier) + 1)
    without = (*lacking, *dropped, *((NO_STEP,) if ended and is_empty else ()))
    return StreamEnd(
        failures, without, folds and not (folding.common.losses or failures or without) and folding.has_all
    )


def counted(folding: Folding, ending: StreamEnd, stopped: str) -> dict[str, Any]:
    """Return the results' attributes that say what they lack."""
    numbers, losses = folding.common.timeline.numbers, folding.common.losses
    found: dict[str, Any] = {"bbflow_late_steps": numbers.late, "bbflow_missing_steps": numbers.missing}
    if losses:
        found["bbflow_lost"] = losses.described
    if ending.failures:
        found["bbflow_failure"] = "; ".join(ending.failures)
    if left_out := [*folding.left_out, *ending.lacking]:
        found["bbflow_left_out"] = left_out
    if stopped:
        found["bbflow_stopped"] = stopped
    return {**found, "bbflow_last_step": folding.cursor}


def _absent(run: Running, stands: Sequence[StreamStatus]) -> Absent | None:
    """Return which ranks of an aborted stream no node knows, if all others have closed it."""
    absent = absent_ranks(run.config.stream, stands) if run.view.status == "aborted" else None
    return absent if absent and absent.is_over else None


def outcome_of(run: Running, folding: Folding, ending: StreamEnd, told: Sequence[StageReport]) -> Outcome:
    """Join what the fold and the other stages tell, and note the end in the events.

    Parameters
    ----------
    run, folding
        The run and its fold.
    ending
        How the results have ended.
    told
        By the other stages.
    """
    view = run.view
    discarded = len(view.discarded)
    passed = sum(step <= folding.cursor for step in view.discarded)  # none where no step was whole
    steps = folding.cursor + 1 - passed - folding.late
    stands = run.consumers.statuses()
    waited_s = max(part.waited_s for part in stands)
    run.log.add("end", status=ending.status, waited_s=waited_s, discarded=discarded, steps=steps, ended_s=time.time())
    absent = None if folding.common.losses.nodes else _absent(run, stands)
    lines = (
        *folding.common.errors.values(),
        *folding.common.losses.described,
        *folding.left_out,
        *taken_alike(folding.common.timeline.numbers, folding.config.diagnostics.values()),
        *ending.lacking,
        *view.refused,
        *([] if absent is None else [str(absent)]),
        *(line for item in told for line in item.lines),
    )
    complete = ending.complete and all(item.is_whole for item in told)
    return Outcome(complete, steps, discarded, folding.late, folding.missing, tuple(dict.fromkeys(lines)))


def forget_stream(run: Running, outcome: Outcome, unaware: Collection[str], copying: Copying | None) -> Outcome:
    """Make the nodes forget a stream; what they have refused the program since its end makes it incomplete.

    Parameters
    ----------
    run
        The run.
    outcome
        How the stream has ended.
    unaware
        Nodes that may not know it.
    copying
        What copies the results elsewhere, if anything does.
    """
    refused: list[str] = []
    output = run.config.output

    def hear(whys: Sequence[str]) -> None:
        told = [text for text in map(told_refusal, whys) if text not in (*outcome.errors, *refused)]
        mark_incomplete(output, *told)
        refused.extend(told)

    run.consumers.drop(unaware, hear)
    if refused and (output / RESULTS).exists():  # what was made of them says that they are complete
        refused += [] if copying is None else copying.finish()
        write_others(output / RESULTS, run.config)
    return replace(outcome, complete=False, errors=(*outcome.errors, *refused)) if refused else outcome


def check_writers(config: Config) -> None:
    """Check that there is what writes what is asked for besides the stores.

    Raises
    ------
    ConfigError
        If not.
    """
    if config.netcdf or config.publication is not None:
        from bbflow.transit.output.netcdf import check_netcdf

        check_netcdf()


def write_others(results: Path, config: Config) -> None:
    """Write what is asked for besides the stores, of the one at a path."""
    if config.netcdf:
        from bbflow.transit.output.netcdf import write_netcdf

        write_netcdf(results)
    if config.publication is not None:
        from bbflow.transit.output.published import write_published

        write_published(results, config.publication)
