"""Stage files to a burst buffer by hand, giving way to the I/O phases of others.

SOURCES are URLs (paths, s3://, https://, …), which are staged together and stay in DIR. With --plan, a YAML or JSON
file has a list of tasks, each with its inputs, its outputs, and the command to run once the inputs are there. Files of
a plan may go when the next tasks need their room; its outputs are copied to their URLs.

What exists by the name that is written is that file. Else a source or an input with wildcards (*, ?, [abc], ** for any
directories) stands for all files that match, and one that ends with / for all below it. DIR/listing.tsv says which
source lies where; with --tree, DIR/tree has the sources under their own paths.

Policies: no-action, full-delay, partial-delay:limit=0.05, scale-down:fetchers=1, scale-up:fetchers=16, auto:limit=0.05;
each also takes max_delay_s=600.

Example:
  bbflow stage s3://survey/tile-{1..8}.fits --to /bb/tiles --capacity 64GiB --policy full-delay --phases /pfs/phases
  bbflow stage 's3://survey/2024/**/*.fits' --to /bb/year --capacity 64GiB --tree
  bbflow stage --plan plan.yml --to /bb/plan --capacity 64GiB --slots 16 --policy auto --picture staging.png
"""

import argparse
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn
from rich.text import Text

from bbflow.cli.transfer_options import add_transfer_options, transfers_of
from bbflow.cli.without_effect import refuse
from bbflow.errors import ConfigError
from bbflow.events import EventLog
from bbflow.host.log import tell
from bbflow.staging.diary import kind_of
from bbflow.staging.gate import Decision
from bbflow.staging.named_links import check_listing, check_names, link_tree, unlink_gone, write_listing
from bbflow.staging.stager import Stager
from bbflow.staging.staging_plan import ENDINGS, PlanStep, expand_plan, plan_of_sources, read_plan
from bbflow.staging.task_commands import Commands, run_plan
from bbflow.stores.sources import Sources, local_path
from bbflow.units import format_bytes, parse_bytes

_SHOW_EVERY_S = 0.2
_TELL_AFTER_S = 5.0
"""Transfers that wait longer say why, also where the bar isn't seen."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("sources", nargs="*", metavar="SOURCE", help="what to stage")
    parser.add_argument("--plan", type=Path, metavar="FILE", help="tasks to stage for and to run, instead of sources")
    parser.add_argument("--to", type=Path, required=True, metavar="DIR", help="directory on the burst buffer")
    parser.add_argument("--capacity", required=True, metavar="SIZE", help="room for files there, such as 64GiB")
    parser.add_argument("--slots", type=int, default=1, help="tasks of a plan that run at once (default 1)")
    add_transfer_options(parser)
    parser.add_argument("--direct", action="store_true", help="tasks whose files can't fit read from the source")
    parser.add_argument("--tree", action="store_true", help="keep the sources' paths: links to them, in DIR/tree")
    parser.add_argument("--picture", type=Path, metavar="PNG", help="draw the timeline")


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    if options.plan is None:
        refuse(options, "without --plan, whose tasks it is about", "slots", "lookahead")
    _end_by_signals()
    steps, names = expand_plan(_plan(options), Sources(), options.to.absolute())
    if options.tree:
        check_names(names)
    if any(not step.command for step in steps):
        check_listing(options.to)
    if options.picture and options.picture.suffix.lower() != ".png":
        raise ConfigError(f"--picture {options.picture}: it becomes a PNG; give a name that ends with .png")
    if options.picture and not options.picture.absolute().parent.is_dir():
        raise ConfigError(f"{options.picture.absolute().parent} isn't there, so the picture can't be written to it")
    with ExitStack() as stack:
        notes = Path(stack.enter_context(TemporaryDirectory()))
        events = EventLog(notes)
        stack.callback(events.close)
        started_s = time.time()
        with _stager(options, events) as stager:
            _run_shown(stager, steps, options.slots)
            state = stager.state()
        elapsed_s = time.time() - started_s
        print(f"{format_bytes(state.staged_bytes)} staged in {elapsed_s:.1f} s", file=sys.stderr)
        _tell_places(options.to.absolute(), _places(stager, steps), names if options.tree else None)
        _draw(options.picture, notes)
    return 0


def _end_by_signals() -> None:
    """End what was begun on signals, as Ctrl-C does: a batch system sends SIGTERM, a closed terminal SIGHUP."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda number, _: sys.exit(128 + number))


def _plan(options: argparse.Namespace) -> list[PlanStep]:
    if (options.plan is None) == (not options.sources):
        raise ConfigError("give either sources to stage, or --plan FILE")
    if options.plan is not None:
        return read_plan(options.plan)
    if len(options.sources) == 1 and options.sources[0].endswith(ENDINGS) and local_path(options.sources[0]):
        source = options.sources[0]
        tell(f"{source} is staged as it is; to run it as a plan, say --plan {source}")
    return plan_of_sources(options.sources)


def _stager(options: argparse.Namespace, events: EventLog) -> Stager:
    return Stager(
        options.to,
        parse_bytes(options.capacity),
        options.slots,
        **transfers_of(options),
        oversize="direct" if options.direct else "error",
        events=events,
    )


def _run_shown(stager: Stager, steps: Sequence[PlanStep], slots: int) -> None:
    """Carry out the plan in a thread, and show meanwhile how far it is."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(True), TransferSpeedColumn())
    with ThreadPoolExecutor(1) as pool, Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        ended: list[PlanStep] = []
        commands = Commands()
        running = pool.submit(run_plan, stager, steps, slots, ended.append, commands)
        bar = progress.add_task("staging", total=None)
        try:
            _follow(
                stager,
                running,
                lambda total, done, words: progress.update(
                    bar, total=total, completed=done, description=f"{len(ended)}/{len(steps)} tasks, {words}"
                ),
                lambda reason: progress.console.print(Text(f"bbflow: transfers wait: {reason}")),  # with others' names
            )
        except BaseException:  # such as what a signal raises
            try:
                stager.close()
            finally:
                commands.stop()
            raise
        running.result()


def _follow(
    stager: Stager, running: "Future[None]", show: Callable[[int, int, str], None], tell: Callable[[str], None]
) -> None:
    waits = WaitTeller(tell)
    while not running.done():
        state = stager.state()
        waits.look(state.decision, time.monotonic())
        words = {"hold": "held", "pace": "paced", "scale": "few fetchers"}.get(kind_of(state.decision) or "", "staging")
        show(max(state.staged_bytes + state.remaining_bytes, state.passed_bytes), state.passed_bytes, words)
        time.sleep(_SHOW_EVERY_S)


class WaitTeller:
    """Reports once why transfers wait, when they have waited for a while.

    Parameters
    ----------
    tell
        Gets the reason.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._since_s: float | None = None
        self._told = ""

    def look(self, decision: Decision, now_s: float) -> None:
        """Take what holds now; `now_s` is any clock's, in seconds."""
        if not decision.hold:
            self._since_s, self._told = None, ""
            return
        self._since_s = now_s if self._since_s is None else self._since_s
        if now_s - self._since_s >= _TELL_AFTER_S and decision.reason != self._told:
            self._told = decision.reason
            self._tell(decision.reason)


def _places(stager: Stager, steps: Sequence[PlanStep]) -> dict[str, Path]:
    """Return where sources lie that stay there."""
    urls = [file.url for step in steps if not step.command for file in step.task.inputs]
    return {url: path for url in urls if (path := stager.path(url)).exists()}


def _tell_places(directory: Path, places: Mapping[str, Path], names: Mapping[str, str] | None) -> None:
    """Write and print where sources lie; with names, only where their tree is."""
    if places:
        write_listing(directory, places)
    if names is None:
        unlink_gone(directory)
        for path in places.values():
            print(path)
    elif places:
        print(link_tree(directory, names, places))


def _draw(path: Path | None, notes: Path) -> None:
    if path is not None:
        # What draws takes longer to load than thousands of files take to be staged.
        from bbflow.report.staging import draw_staging, read_staging

        picture = draw_staging(read_staging(notes))
        if picture is not None:
            path.write_bytes(picture.png)
