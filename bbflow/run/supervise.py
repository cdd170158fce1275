"""Supervising a run: the simulation, the process beside it, and the shell around their course."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from bbflow.errors import BbflowError, ConfigError, StreamError, describe_end
from bbflow.host.leftovers import VARIABLE
from bbflow.host.log import tell
from bbflow.landing.absent import give_up_absent, give_up_waiting, refusals
from bbflow.landing.client import status_of
from bbflow.landing.replies import StatusReply, StreamStatus
from bbflow.net.contact import NodeAddress, read_contact
from bbflow.run import keeper
from bbflow.run.course import (
    INCOMPLETE,
    STOPPED,
    Action,
    AskToStop,
    Course,
    Ended,
    Event,
    Hurry,
    Interrupted,
    KeepsRun,
    Part,
    Say,
    SimulationEnded,
    Start,
    StopAsked,
    StopPart,
    StopSimulation,
    StreamForgotten,
    exit_code,
)
from bbflow.run.prepared import PreparedAnalysis
from bbflow.run.stop_stream import StopStream

POLL_S = 0.2
STOP_TIMEOUT_S = 10.0
NODE_BACK_S = 60.0
INTERRUPTED = 130
"""As a shell says of what SIGINT has ended: 128 and its number."""
CONSUMERS = {Part.FOLD: "fold", Part.FINISH: "fold", Part.RESCUE: "rescue"}
"""Whose cursor tells how far the process beside the simulation is."""

Process = subprocess.Popen[bytes]


class Supervisor:
    """Runs a simulation with its analysis.

    The analysis is a process of its own: if it is killed, a new one continues from the checkpoints on the
    nodes, and the simulation notices nothing. What follows from an end is for `Course` to say.

    Parameters
    ----------
    contact
        The BB nodes' contact file.
    stream
        The stream that the simulation writes.
    name
        The run's, for its processes.
    prepared
        The first analysis, which waits to be told where the nodes are.
    commands
        Start the next ones, and what rescues the steps of one that failed.
    show
        Gets the nodes' status as long as the stream is there.
    look
        Gets it to the end.
    on_failure
        What becomes of the simulation when its analysis fails for good: continue or stop.
    is_complete
        Whether what is published says so: an analysis may die after all its work is done.
    node_back_s
        How long a BB node may give no answer, before a new analysis continues without it.
    why_no_stream
        Says more of a simulation that ended without opening the stream, behind a semicolon; may be empty.
    why_stop
        Says why a user's function wants the simulation to end; empty if none does.
    stop_stream
        Asks a simulation that reads it to end; another one is ended by SIGTERM.
    ask
        Asks a node for its status.
    """

    def __init__(
        self,
        contact: Path,
        stream: str,
        name: str,
        prepared: PreparedAnalysis,
        commands: Mapping[Part, Sequence[str]],
        show: Callable[[list[StatusReply]], object],
        look: Callable[[list[StatusReply]], object],
        on_failure: str,
        is_complete: Callable[[], bool],
        node_back_s: float = NODE_BACK_S,
        why_no_stream: Callable[[], str] = str,
        why_stop: Callable[[], str] = str,
        stop_stream: StopStream | None = None,
        ask: Callable[[NodeAddress], StatusReply] = status_of,
    ) -> None:
        self._contact, self._ask_node = contact, ask
        self._nodes = read_contact(contact)
        self._stream = stream
        self._commands = commands
        self._show, self._look_at = show, look
        self._says_complete = is_complete
        self._node_back_s, self._why_no_stream = node_back_s, why_no_stream
        self._why_stop, self._stop_stream = why_stop, stop_stream or StopStream()
        self._silent: dict[str, float] = {}
        self._lost: set[str] = set()
        self._statuses: list[StatusReply] = []
        self._opened = self._forgotten = False
        self._name, self._prepared = name, prepared
        self._step = -1
        self.course = Course(on_failure)
        """Where the run is, or how it ended."""
        self._simulation: Process | None = None
        self._beside: Process | None = None
        self._due: tuple[Part, float] | None = None

    def run(self, command: Sequence[str], environment: Mapping[str, str]) -> int:
        """Run the simulation, and the analysis until it has published everything.

        Parameters
        ----------
        command
            The simulation.
        environment
            Its environment.

        Returns
        -------
        int
            130 after Ctrl-C, 4 if a user's function has asked for the simulation's end and the results have all that
            there was, else the simulation's exit code, else 3 if the results are incomplete.

        Raises
        ------
        ConfigError
            If the command can't be started.
        StreamError
            If the simulation ended without opening the stream.
        """
        try:
            self._beside = self._prepared.begin(self._contact)
            self._simulation = start_program(command, environment)
            while self.course.part is not Part.NONE or self._simulation.poll() is None:
                try:
                    self._turn(self._simulation)
                except KeyboardInterrupt:
                    self._take(Interrupted())
        except StreamError as error:
            ended = exit_code(self._simulation.poll() or 0) if self._simulation else 0
            if not (self.course.interrupts or ended):
                raise
            tell(str(error))
            return INTERRUPTED if self.course.interrupts else ended
        finally:
            code = exit_code(self._end())
            if not self.course.simulation_ended:  # it ended after all else, or with this
                self._take(SimulationEnded(code))
        if self.course.interrupts:
            return INTERRUPTED
        if self.course.stopped:
            return STOPPED if self._is_complete else INCOMPLETE
        return code or (0 if self._is_complete else INCOMPLETE)

    @property
    def _is_complete(self) -> bool:
        if self.course.keeping is not KeepsRun.RESULTS:
            return False
        return self._says_complete() if self._published < 0 else self._published == 0

    def _end(self) -> int:
        """End what still runs; gives the simulation's exit code."""
        code = stop_process(self._simulation) if self._simulation else 0
        self._published = 0
        if self._beside is not None:
            self._published = stop_process(self._beside)
            with suppress(ProcessLookupError):  # a worker that was just being started would miss what is removed now
                os.killpg(self._beside.pid, signal.SIGKILL)
        return code

    def _turn(self, simulation: Process) -> None:
        """Look once at everything, and do what follows."""
        time.sleep(POLL_S)
        ended = simulation.poll() is not None
        beside = None if self._beside is None else self._beside.poll()
        answered = self._look()  # after that: what the nodes have forgotten tells what the end of a process means
        if ended and not self.course.simulation_ended:
            self._take(SimulationEnded(simulation.returncode))
        elif not ended and (why := self._why_stop()):
            own = [status.streams.get(self._stop_stream.name) for status in self._statuses]
            reads = self._stop_stream.is_open and any(stream is not None and stream.readers for stream in own)
            self._take(StopAsked(why, reads=reads))
        if ended:
            there = [node for node in self._nodes if node.name not in self._lost]
            give_up_absent(there, self._statuses, self._stream)
        else:
            give_up_waiting(self._nodes, self._statuses)
        if beside is not None and self._due is None:
            if self.course.part is not Part.NONE:
                self._take(Ended(beside, self._step, answered and self._forgotten))
        elif ended and answered and not self._opened:
            never = f"the simulation {describe_end(simulation.returncode)} and never opened stream {self._stream!r}"
            if self.course.interrupts:  # else the analysis would wait for a stream that no program opens any more
                raise StreamError(never)
            if whys := refusals(there, self._stream):
                raise StreamError(f"{never}: its Open was refused ({'; '.join(whys)})")
            raise StreamError(
                f"{never}: check that its XML selects the engine bbflow, and that 'stream' is its "
                f"parameter Stream (or the IO's name){self._why_no_stream()}"
            )
        self._start_if_due(answered=answered)

    def _take(self, event: Event) -> None:
        self.course, actions = self.course.after(event)
        for action in actions:
            self._do(action)

    def _do(self, action: Action) -> None:
        match action:
            case Say(text):
                tell(text)
            case Start(part, wait_s):
                self._due = part, time.monotonic() + wait_s
            case Hurry() if self._due is not None:
                self._due = self._due[0], time.monotonic()
            case StopSimulation(by) if self._simulation is not None:
                _signal(self._simulation, by)
            case AskToStop(why):
                self._stop_stream.tell(why)
            case StopPart() if self._beside is not None:
                stop_process(self._beside)

    def _start_if_due(self, *, answered: bool) -> None:
        """Start what is due; agents that were killed may take a while to answer again."""
        if self._due is None:
            return
        part, due_s = self._due
        late_s = time.monotonic() - due_s
        if part is Part.RESCUE and answered and self._forgotten:
            self._due = None
            self._take(StreamForgotten())
        # Begun before its nodes answer, an analysis would only fail, and count as an attempt.
        elif late_s >= 0 and (answered or self._least_silence_s() > self._node_back_s):
            self._due = None
            for name in sorted(self._silent.keys() - self._lost):
                self._take_as_lost(name)
            self._spawn(part)

    def _least_silence_s(self) -> float:
        """Return for how long all nodes have given no answer that give none now, but for those that are lost."""
        since = [began_s for name, began_s in self._silent.items() if name not in self._lost]
        return time.monotonic() - max(since, default=time.monotonic())

    def _take_as_lost(self, name: str) -> None:
        if len(self._lost) + 1 < len(self._nodes):
            self._lost.add(name)
            silent = f"BB node {name} has not answered for {self._node_back_s:.0f} s"
            self._do(Say(f"{silent}: the analysis continues without it"))

    def _spawn(self, part: Part) -> None:
        # A session of its own: Ctrl-C in the terminal is for the simulation first.
        without = [] if part is Part.RESCUE else [word for name in sorted(self._lost) for word in ("--lost", name)]
        command = [*self._commands[part], *without]
        named = os.environ | {VARIABLE: self._name}
        self._beside = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, env=named)

    def _ask(self) -> list[StatusReply]:
        """Ask each node for its status, and note which don't answer."""
        statuses, before, self._silent = [], self._silent, {}
        for node in self._nodes:
            asked_s = time.monotonic()
            try:
                statuses.append(self._ask_node(node))
            except BbflowError:
                self._silent[node.name] = before.get(node.name, asked_s)
        return statuses

    def _look(self) -> bool:
        """Show the nodes' status; False if one doesn't answer that isn't lost."""
        self._statuses = statuses = self._ask()
        if self._silent.keys() - self._lost or not statuses:
            with suppress(BbflowError):  # an agent that was started again may have another address
                self._nodes = read_contact(self._contact)
            return False
        streams = [status.streams[self._stream] for status in statuses if self._stream in status.streams]
        # The nodes expect it from the start: when they don't know it, all is done with it, perhaps between two looks.
        self._forgotten = not streams
        self._opened = self._opened or self._forgotten or any(stream.status != "expected" for stream in streams)
        self._step = _step_of(streams, CONSUMERS.get(self.course.part, ""))
        if streams or not self._opened:  # at the end the nodes have forgotten it: its last numbers stay
            self._show(statuses)
        self._look_at(statuses)
        return True


def _step_of(streams: Sequence[StreamStatus], consumer: str) -> int:
    """Return the step up to which all nodes that ranks land on have heard from a consumer."""
    return min((stream.consumers.get(consumer, -1) for stream in streams if stream.local_writers), default=-1)


def start_program(command: Sequence[str], environment: Mapping[str, str]) -> Process:
    """Start the simulation below a keeper, which ends it if this process is killed."""
    heard, told = os.pipe()
    keeper_command = [sys.executable, "-I", "-S", str(keeper.__file__), str(os.getpid()), str(told), *command]
    process = subprocess.Popen(keeper_command, env=dict(environment), pass_fds=[told])
    os.close(told)
    with os.fdopen(heard) as file:
        # It ends when the keeper closes its end, which it does once the program runs.
        reason = file.read()
    if reason:
        process.wait()
        raise ConfigError(f"can't start the simulation {command[0]!r}: {reason}")
    return process


def _signal(process: Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        process.send_signal(number)


def stop_process(process: Process) -> int:
    """End a process that may still run, and return its exit code."""
    # Without a signal first: most have ended by themselves, or are just about to.
    for number in (None, signal.SIGTERM, signal.SIGKILL):
        if number is not None:
            _signal(process, number)
        try:
            return process.wait(STOP_TIMEOUT_S if number is not None else POLL_S)
        except subprocess.TimeoutExpired:
            continue
    return process.wait()
