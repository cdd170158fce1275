"""Conducting a run, from the check of its configuration to its last word."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import bbflow_adios2

from bbflow.configuring.settings import Config
from bbflow.configuring.step_time import written_time
from bbflow.drain.stores import rescued_stores
from bbflow.errors import BbflowError, NodeError, describe
from bbflow.events import EVENTS_FILE
from bbflow.host.log import tell
from bbflow.landing.embedded import EmbeddedNodes
from bbflow.net.contact import read_contact
from bbflow.report import REPORT_FILES
from bbflow.run.checks.before import tell_before
from bbflow.run.course import INCOMPLETE, Course, KeepsRun, Part
from bbflow.run.ending import Left, begin_in, describe_ending, describe_held, is_complete, why_stop
from bbflow.run.prepared import PreparedAnalysis
from bbflow.run.progress import ProgressLine
from bbflow.run.selecting import Opens, noted_opens, simulation_environment
from bbflow.run.stop_stream import StopStream, open_stop_stream, stop_stream_of
from bbflow.run.strays import Strays
from bbflow.run.supervise import Supervisor
from bbflow.transit.driver.policy import check_policy
from bbflow.transit.outcome import mark_incomplete
from bbflow.transit.output.claiming import RESCUED_DIRECTORY, claim_output, clear_output, locked_output
from bbflow.transit.output.copying import Copying, check_copy, check_output
from bbflow.view.consumers import Consumers, consumers_of, owner_of

RESTART_S = 15.0
"""How long an agent that was killed at once may take to be started again, and to take over what its node holds."""
POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What is to run, and how."""

    file: Path
    """The configuration's."""
    config: Config
    """What it says, and what the command line adds."""
    command: Sequence[str]
    """The simulation."""
    before: Mapping[str, str]
    """Its environment, but for what it finds the nodes by."""
    analysis: Callable[[str], list[str]]
    """Contact file to the command of the analysis."""
    contact: Path | None = None
    """Nodes that run already."""
    scheduler: str | None = None
    """A Dask cluster that does."""
    overwrite: bool = False
    """Whether what an earlier run left in the output goes."""
    take_over: bool = False
    """Whether the stream may be another analysis'."""
    draws_report: bool = True
    """Whether there is to be a report."""


def conduct(options: RunOptions, name: str, embedded: EmbeddedNodes | None, prepared: PreparedAnalysis) -> int:
    """Run a simulation with its analysis and write the report.

    Parameters
    ----------
    options
        What is to run.
    name
        The run's, for its processes.
    embedded
        Nodes of its own, which get ready meanwhile; they are ended with it.
    prepared
        The first analysis, which gets ready meanwhile.

    Returns
    -------
    int
        The exit code.
    """
    config, command = options.config, options.command
    check_policy(config.raw)
    check_copy(config)
    goes_on = config.continued is not None and _goes_on(config, config.continued)
    tell_before(config, command, options.contact, options.scheduler, embedded.free_bytes if embedded else None)
    with (
        # First: a second run of an output is refused before it has started, or claimed, anything.
        _output(config, overwrite=options.overwrite, goes_on=goes_on) as owner,
        _ready(embedded, options.contact) as contact,
        _claimed(config, contact, owner, take_over=options.take_over, patience_s=RESTART_S if embedded else 0.0),
        ProgressLine() as progress,
        noted_opens(contact, command, selects=bool(config.select)) as opens,
        _stop_stream(config, contact) as stop_stream,
    ):
        nodes = read_contact(contact)
        strays = Strays(options.file, config, contact, embedded, (stop_stream_of(config.stream),))
        analysis = options.analysis(str(contact))
        others = rescued_stores(config.output / RESCUED_DIRECTORY)
        rescue = _rescue_command(config, contact, owner)
        supervisor = Supervisor(
            contact,
            config.stream,
            name,
            prepared,
            {Part.FOLD: analysis, Part.FINISH: [*analysis, "--finish"], Part.RESCUE: rescue},
            lambda s: progress.update(s, config.stream),
            strays.look,
            config.on_failure,
            lambda: is_complete(config.output),
            config.nodes.back_s,
            opens.why_no_stream,
            lambda: why_stop(config.output),
            stop_stream,
        )
        environment = simulation_environment(config, contact, opens, options.before)
        try:
            code = supervisor.run(command, environment)
        finally:
            has_strays = _tell_strays(strays, supervisor.course)
        if supervisor.course.keeping is KeepsRun.RESULTS and is_complete(config.output):
            progress.settle(config.stream, Left.of(config.output, others).last_step + 1)
        if embedded is not None and (strays.held or supervisor.course.keeping is KeepsRun.HELD):
            embedded.leave()
        refused, was_refused = _refused(config, opens)
    is_told = _tell_ending(options.file, config, supervisor.course, others, refused, draws_report=options.draws_report)
    for line in describe_held(options.file, config.stream, contact, nodes, supervisor.course, strays.held):
        tell(line, sys.stdout)
    return code or (INCOMPLETE if has_strays or was_refused or not is_told else 0)


def _rescue_command(config: Config, contact: Path, owner: str) -> list[str]:
    rescue = [sys.executable, "-m", "bbflow", "rescue", config.stream, "--contact", str(contact)]
    rescue += ["--output", str(config.output / RESCUED_DIRECTORY), "--time", written_time(config.time)]
    return [*rescue, "--owner", owner, *(["--schema", config.schema] if config.schema else [])]


def _refused(config: Config, opens: Opens) -> tuple[list[str], bool]:
    """Return why results that seem complete aren't, and whether the program was refused anything.

    What is about another stream is said here.
    """
    told = opens.refused()
    for stream, why in told:
        if stream != config.stream:
            tell(f"STREAM {stream!r} IS INCOMPLETE: the program was refused a part of it ({why})", sys.stdout)
    own = [f"the program was refused a part of it ({why})" for stream, why in told if stream == config.stream]
    failed = opens.failed() if is_complete(config.output) and not told else []
    own += [f"the program couldn't open {file!r}, which was selected" for file in failed]
    return own, bool(told or failed)


def _stop_stream(config: Config, contact: Path) -> AbstractContextManager[StopStream]:
    """Open the stream by which functions ask the simulation to end, if there are any."""
    if not config.functions:
        return nullcontext(StopStream())
    return open_stop_stream(config.stream, contact, bbflow_adios2.environment(contact))


def _tell_strays(strays: Strays, course: Course) -> bool:
    """Print the fate of unclaimed streams; false if there are none."""
    lines = strays.end(course)
    for line in lines:
        tell(line, sys.stdout)
    return bool(lines)


def _goes_on(config: Config, before: Path) -> bool:
    """Whether it continues in the output of the run before, whose state is checked."""
    from bbflow.transit.chain.comparing import check_continued  # late: until the analysis is started all waits for it

    return check_continued(config, before).path.resolve().parent == config.output.resolve()


def _claimed(config: Config, contact: Path, owner: str, *, take_over: bool, patience_s: float) -> Consumers:
    """Claim the stream before the simulation opens it; an agent that was killed meanwhile is restarted."""
    deadline_s = time.monotonic() + patience_s
    while True:
        try:
            return Consumers(read_contact(contact), config.stream, consumers_of(config), owner, take_over=take_over)
        except NodeError:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(POLL_S)


def _tell_ending(
    file: Path, config: Config, course: Course, others: Sequence[Path], refused: Sequence[str], *, draws_report: bool
) -> bool:
    """Print how the run ended; what can't be written or drawn any more must not change its exit code.

    Parameters
    ----------
    file, config, course
        The run's.
    others
        Stores of rescued steps that were there before it.
    refused
        Why results that seem complete aren't.
    draws_report
        Whether there is to be one.

    Returns
    -------
    bool
        Whether the output could be looked into.
    """
    told = []
    try:
        mark_incomplete(config.output, course.failure, *refused)
    except (BbflowError, OSError) as error:
        told.append(describe(error))
    try:
        uncopied = _copied(config) if course.failure or refused else []  # what ended well has copied all
        left = Left.of(config.output, others)
        report = _drawn(config.output) if draws_report and left.spans else []
        told += describe_ending(file, config.stream, config.output, course, left, config.continued)
        told += [*uncopied, *report]
        could_look = True
    except (BbflowError, OSError) as error:
        told += [describe(error), f"WHAT IS IN {config.output} CAN'T BE READ{course.failure and f': {course.failure}'}"]
        could_look = False
    for line in dict.fromkeys(told):
        tell(line, sys.stdout)
    return could_look


def _copied(config: Config) -> list[str]:
    """Bring what an analysis has left, and what results say of themselves, to the bucket; say what can't be."""
    if config.copy_to is None:
        return []
    return Copying(config.output, config.copy_to, moves=config.moves).finish()


def _drawn(output: Path) -> list[str]:
    from bbflow.report.writing import write_report  # late: what draws takes half a second to import

    try:
        return [f"report in {write_report(output)}"]
    except Exception as error:  # results may be anything, and they are there: no picture of them is worth their run
        return [f"there is no report: {describe(error) if isinstance(error, OSError) else error!r}"]


@contextmanager
def _ready(embedded: EmbeddedNodes | None, contact: Path | None) -> Iterator[Path]:
    """Provide nodes that answer: the run's own until this ends, or those that are there; gives their contact file."""
    if embedded is None:
        assert contact is not None
        yield contact
        return
    with embedded:
        embedded.wait()
        yield embedded.contact


@contextmanager
def _output(config: Config, *, overwrite: bool, goes_on: bool) -> Iterator[str]:
    """Be the one run of the output, and give its name for the nodes; it is empty, or what this run continues from."""
    claim_output(config, *REPORT_FILES)
    with locked_output(config.output):
        if goes_on:
            _put_events_aside(config.output)
            begin_in(config.output)
        else:
            clear_output(config.output, overwrite=overwrite)
        check_output(config, overwrite=overwrite and not goes_on)
        yield owner_of(config.output)


def _put_events_aside(output: Path) -> None:
    """Rename the events of the run before: those of this one, and its report, are its own."""
    events = output / EVENTS_FILE
    names = (events.with_name(f"{events.stem}.{number}{events.suffix}") for number in count(1))
    if events.exists():
        events.rename(next(name for name in names if not name.exists()))
