"""The end of a stream: the rest is published, results say what they lack, and the stages tell what came of it."""

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bbflow.configuring.settings import Config
from bbflow.landing.absent import Absent, absent_ranks
from bbflow.landing.replies import StreamStatus
from bbflow.transit.driver.fold_stage import FoldStage
from bbflow.transit.driver.run_context import Running
from bbflow.transit.driver.stage import Seen, StageReport
from bbflow.transit.outcome import Outcome, mark_incomplete
from bbflow.transit.output.copying import RESULTS, Copying
from bbflow.view.stream import told_refusal

NOT_CLOSED = "the simulation ended without closing the stream"


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


NO_STEP = "the stream ended without a step, so nothing that was asked for is there"


def finish_results(
    run: Running, fold: FoldStage, seen: Seen | None, stopped: str, *, folds: bool, goes_on: bool
) -> StreamEnd:
    """Publish the windows that are open, keep the state, and let the results say how they have ended.

    Parameters
    ----------
    run, fold
        The run and its fold.
    seen
        What is known of the stream; None if it had no step.
    stopped
        Why the simulation was asked to end; empty if it wasn't.
    folds
        Whether further steps would have been folded.
    goes_on
        Whether there are results of an earlier job, which a stream without steps leaves as they are.
    """
    folding, publishing, view = fold.folding, fold.publishing, run.view
    # A simulation that was asked to end has no further steps, also if it didn't close its stream. Ranks that are on no
    # node that is left may have closed theirs on the one that was lost: what that costs is told of their points.
    is_excused = bool(stopped) or (bool(folding.losses.nodes) and _absent(run, run.consumers.statuses()) is not None)
    ended = view.status == "closed" or (view.status == "aborted" and is_excused)
    late = None if seen is None else seen.attributes.with_late({}, fold.variables)
    if seen is not None and late is not None:
        fold.learn_late(late, seen.clock)
        fold.publish(folding.timeline.closing(None))
    failures = (*view.refused, *(() if ended else (NOT_CLOSED,)), *fold.misplaced)
    is_empty = ended and folds and publishing.results is None and not goes_on and bool(run.config.diagnostics)
    lacking = (*fold.lacking, *([NO_STEP] if is_empty else []))
    complete = folds and not (folding.losses or failures or lacking) and folding.has_all
    ending = StreamEnd(failures, lacking, complete)
    if publishing.results is None or seen is None or late is None:
        return ending
    if folding.timeline.begun:
        fold.save(seen.attributes, seen.clock, complete=complete)
    publishing.results.commit_late(late)
    publishing.results.commit(bbflow_status=ending.status, **_counted(fold, ending, stopped))
    return ending


def _counted(fold: FoldStage, ending: StreamEnd, stopped: str) -> dict[str, Any]:
    """Return the results' attributes that say what they lack."""
    folding = fold.folding
    timeline = folding.timeline
    counted: dict[str, Any] = {"bbflow_late_steps": timeline.late, "bbflow_missing_steps": timeline.missing}
    if folding.losses:
        counted["bbflow_lost"] = folding.losses.described
    if ending.failures:
        counted["bbflow_failure"] = "; ".join(ending.failures)
    if left_out := [*folding.left_out, *ending.lacking]:
        counted["bbflow_left_out"] = left_out
    if stopped:
        counted["bbflow_stopped"] = stopped
    return {**counted, "bbflow_last_step": folding.cursor}


def _absent(run: Running, stands: Sequence[StreamStatus]) -> Absent | None:
    """Return which ranks of an aborted stream no node knows, if all others have closed it."""
    absent = absent_ranks(run.config.stream, stands) if run.view.status == "aborted" else None
    return absent if absent and absent.is_over else None


def outcome_of(run: Running, fold: FoldStage, ending: StreamEnd, told: Sequence[StageReport]) -> Outcome:
    """Join what the fold and the other stages tell, and note the end in the events.

    Parameters
    ----------
    run, fold
        The run and its fold.
    ending
        How the results have ended.
    told
        By the other stages.
    """
    folding, view = fold.folding, run.view
    discarded = len(view.discarded)
    steps = folding.cursor + 1 - discarded - folding.late
    stands = run.consumers.statuses()
    waited_s = max(part.waited_s for part in stands)
    run.log.add("end", status=ending.status, waited_s=waited_s, discarded=discarded, steps=steps, ended_s=time.time())
    absent = None if folding.losses.nodes else _absent(run, stands)
    lines = (
        *folding.errors.values(),
        *folding.losses.described,
        *folding.left_out,
        *folding.uneven,
        *ending.lacking,
        *view.refused,
        *([] if absent is None else [str(absent)]),
        *(line for item in told for line in item.lines),
    )
    complete = ending.complete and all(item.is_whole for item in told)
    return Outcome(complete, steps, discarded, folding.late, folding.missing, tuple(dict.fromkeys(lines)))


def forget_stream(run: Running, outcome: Outcome, unaware: Collection[str], copying: Copying | None) -> Outcome:
    """Tell the nodes to forget a stream; what they have refused the program since its end makes it incomplete.

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


def write_others(results: Path, config: Config) -> None:
    """Write what is asked for besides the stores, of the one at a path."""
    if config.netcdf:
        from bbflow.transit.output.netcdf import write_netcdf

        write_netcdf(results)
    if config.publication is not None:
        from bbflow.transit.output.published import write_published

        write_published(results, config.publication)
