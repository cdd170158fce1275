"""The course of a run: what follows when the analysis ends while the simulation continues.

Events go in, the next course and actions come out; no process and no clock.
"""

import os
import signal
from dataclasses import dataclass, replace
from enum import Enum

from bbflow.errors import describe_end

INCOMPLETE = 3
"""Exit code of an analysis or a rescue whose stream was aborted: what there was is published, or rescued."""
STOPPED = 4
"""Exit code of a run whose simulation was ended since a user's function asked for it; the results are complete."""
DONE = (0, INCOMPLETE)
CONTINUE, STOP = "continue", "stop"
"""What becomes of the simulation when its analysis has failed for good."""
UNFORESEEN = 1
PASSING = {
    os.EX_NOHOST: "a BB node or the Dask workers didn't answer",
    os.EX_IOERR: "a file could not be read or written",
    UNFORESEEN: "an unforeseen error",
}
"""Exit codes of an analysis whose cause may pass."""
TRIES = 4
"""How many times the analysis is started again if it gets no step further."""
ERRORS = 2
"""How many unforeseen errors end it at one step: what repeats there will repeat."""
FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 60.0


class Part(Enum):
    """What the process beside the simulation does."""

    FOLD = "the analysis"
    """It folds, publishes and drains."""
    FINISH = "the last publication"
    """It publishes what a failed analysis had folded, and saves the state."""
    RESCUE = "the rescue"
    """It writes what is not folded to ``rescued/raw.zarr``."""
    NONE = "nothing"
    """It has ended for good."""


class KeepsRun(Enum):
    """Where the committed steps are at the end."""

    RESULTS = "published"
    """In the results, and raw as far as configured."""
    RESCUED = "rescued"
    """Those that were not folded are in ``rescued/``."""
    HELD = "held"
    """Those that were neither folded nor rescued are still on the BB nodes."""
    LEFT = "left"
    """The user has ended the rescue too: what it hadn't written goes with the BB nodes."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The process beside the simulation has ended."""

    code: int
    """Its exit code; below 0 the signal that killed it."""
    step: int
    """Every step up to this one is safe with it."""
    forgotten: bool = False
    """Whether the nodes have forgotten the stream, which is the last thing that is done."""


@dataclass(frozen=True, slots=True)
class SimulationEnded:
    """The simulation has ended: what still waits for room will get none."""

    code: int = 0
    """Its exit code; below 0 the signal that killed it."""


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The user wants the run to end: once the simulation, twice the analysis too, three times everything."""


@dataclass(frozen=True, slots=True)
class StreamForgotten:
    """The nodes have forgotten the stream before a rescue was started, which would wait forever for it."""


@dataclass(frozen=True, slots=True)
class StopAsked:
    """A user's function wants the simulation to end."""

    why: str
    """Which function, and why."""
    reads: bool = False
    """Whether the simulation reads the stream by which it can be asked."""


@dataclass(frozen=True, slots=True)
class Start:
    """Start the process beside the simulation."""

    part: Part
    """As what."""
    wait_s: float = 0.0
    """Not before this many seconds have passed."""


@dataclass(frozen=True, slots=True)
class Say:
    """Print a message for the user."""

    text: str
    """What."""


@dataclass(frozen=True, slots=True)
class StopSimulation:
    """End the simulation."""

    by: signal.Signals = signal.SIGTERM
    """The signal."""


@dataclass(frozen=True, slots=True)
class AskToStop:
    """Ask the simulation to end, by the stream that it reads."""

    why: str
    """What it is told."""


@dataclass(frozen=True, slots=True)
class StopPart:
    """End the process beside the simulation; nothing follows from its end."""


@dataclass(frozen=True, slots=True)
class Hurry:
    """Start at once what waits for its time."""


Event = Ended | SimulationEnded | Interrupted | StreamForgotten | StopAsked
Action = Start | Say | StopSimulation | AskToStop | StopPart | Hurry


@dataclass(frozen=True, slots=True)
class Course:
    """Where a run is."""

    on_failure: str = CONTINUE
    """What becomes of the simulation when its analysis has failed for good."""
    part: Part = Part.FOLD
    """What the process beside the simulation does."""
    step: int = -1
    """The last step that it was seen to be done with."""
    fruitless: int = 0
    """How often it has ended without getting any further."""
    errors: int = 0
    """How many of these ends were unforeseen errors."""
    simulation_ended: bool = False
    """Whether the simulation has."""
    interrupts: int = 0
    """How often the user has asked for the end."""
    keeping: KeepsRun = KeepsRun.RESULTS
    """Where the steps are, or will be."""
    failure: str = ""
    """Why the analysis was given up."""
    published: bool = True
    """Whether what it had folded was published, if that could be; else it is held too."""

    stopped: str = ""
    """Why the simulation was asked to end, if a user's function wanted that."""
    ended_well: bool = False
    """Whether it came to an end of its own, with 0, asked or not."""

    def after(self, event: Event) -> "tuple[Course, tuple[Action, ...]]":
        """Return what follows from an event."""
        match event:
            case SimulationEnded(code):
                # Who could not write for want of room gets its tries again: room may come with the simulation's end.
                return replace(self, simulation_ended=True, fruitless=0, errors=0, ended_well=code == 0), (Hurry(),)
            case StopAsked(why, reads):
                return self._asked_to_stop(why, reads=reads)
            case Interrupted():
                return replace(self, interrupts=self.interrupts + 1)._interrupted()
            case StreamForgotten():
                done = replace(self, part=Part.NONE)  # the analysis came to its end before the user's second word did
                return replace(done, keeping=KeepsRun.RESULTS, failure="") if self.interrupts else done, ()
            case Ended(code, forgotten=True) if self.part is Part.FINISH and code in DONE:
                # The analysis before it had come to its end: a rescue would wait forever for a stream that is gone.
                return replace(self, part=Part.NONE, keeping=KeepsRun.RESULTS, failure=""), ()
            case Ended(code) if self.part is Part.FINISH and (code in DONE or not _is_passing(code)):
                return replace(self, part=Part.RESCUE, fruitless=0, errors=0, step=-1), (Start(Part.RESCUE),)
            case Ended(code, forgotten=forgotten) if code in DONE or (code < 0 and forgotten):
                return replace(self, part=Part.NONE), ()
            case Ended(code, step):
                fruitless, errors = (0, 0) if step > self.step else (self.fruitless, self.errors)
                errors += code == UNFORESEEN
                return replace(self, step=max(step, self.step), fruitless=fruitless + 1, errors=errors)._failed(code)

    def _asked_to_stop(self, why: str, *, reads: bool) -> "tuple[Course, tuple[Action, ...]]":
        if self.simulation_ended or self.stopped:
            return self, ()
        how = (Say(f"{why}; the simulation gets SIGTERM"), StopSimulation())
        asks = (Say(f"{why}; the simulation, which reads that, is asked to end"), AskToStop(why))
        return replace(self, stopped=why), asks if reads else how

    def _interrupted(self) -> "tuple[Course, tuple[Action, ...]]":
        # What the simulation has committed is still published, unless the user can't wait for that.
        if self.interrupts == 1 or self.part is Part.NONE:
            return self, (StopSimulation(signal.SIGINT),)
        if self.part in (Part.FOLD, Part.FINISH):
            course, actions = replace(self, step=-1)._rescue("was interrupted")
            return course, (StopPart(), *actions)
        said = Say("the rescue was interrupted: what it has not written yet is lost")
        return replace(self, part=Part.NONE, keeping=KeepsRun.LEFT), (StopPart(), said)

    def _failed(self, code: int) -> "tuple[Course, tuple[Action, ...]]":
        if self._may_pass(code):
            wait_s = self._wait_s(code)
            when = f"in {wait_s:.0f} s" if wait_s else "now"
            return self, (
                Say(f"{self.part.value} {_describe(code)}; it is started again {when}"),
                Start(self.part, wait_s),
            )
        if self.part is Part.FINISH and not self.simulation_ended:  # which must not wait for room any longer
            return replace(self, part=Part.RESCUE, fruitless=0, errors=0, step=-1), (Start(Part.RESCUE),)
        return self._rescue(_describe(code)) if self.part is Part.FOLD else self._hold(code)

    def _may_pass(self, code: int) -> bool:
        # While the simulation waits for room, there is nothing better to do than to try again: without a rescue it
        # would wait forever, and who reads what is said can mend the cause.
        patient = code == os.EX_IOERR or self.part is Part.RESCUE
        passes = _is_passing(code) and self.fruitless <= TRIES and self.errors < ERRORS
        return (patient and not self.simulation_ended) or passes

    def _wait_s(self, code: int) -> float:
        if code < 0 and self.fruitless <= 1:
            return 0.0
        return float(min(FIRST_WAIT_S * 2.0 ** (self.fruitless - 1), LONGEST_WAIT_S))

    def _rescue(self, how: str) -> "tuple[Course, tuple[Action, ...]]":
        failure = f"the analysis {how}"
        # A state that is folded, but not published, would be lost with the nodes.
        part = Part.FINISH if self.step >= 0 else Part.RESCUE
        rescuing = replace(self, part=part, fruitless=0, errors=0, step=-1, keeping=KeepsRun.RESCUED, failure=failure)
        stops = self.on_failure == STOP and not self.simulation_ended
        goes_on = "the simulation is ended; " if stops else "the simulation continues; "
        goes_on = "" if self.simulation_ended or self.interrupts else goes_on
        said = Say(f"{failure} and is given up: {goes_on}what isn't folded is rescued to rescued/raw.zarr")
        return rescuing, (said, *((StopSimulation(),) if stops else ()), Start(part))

    def _hold(self, code: int) -> "tuple[Course, tuple[Action, ...]]":
        held = replace(self, part=Part.NONE, keeping=KeepsRun.HELD, published=self.part is not Part.FINISH)
        return held, (Say(f"{self.part.value} {_describe(code)} and is given up: the BB nodes keep what they hold"),)


def _is_passing(code: int) -> bool:
    """Whether the cause of an end may pass."""
    return code < 0 or code in PASSING


def exit_code(code: int) -> int:
    """Return a process' exit code as a shell would: below 0 it is the signal that killed it."""
    return 128 - code if code < 0 else code


def _describe(code: int) -> str:
    """Return how the process beside the simulation ended, with the cause where the code has one."""
    cause = f" ({PASSING[code]})" if code in PASSING else ""
    return f"{describe_end(code)}{cause}"
