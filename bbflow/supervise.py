"""Supervising a run: the simulation, the analysis beside it, and what is done when one of them ends."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from bbflow.errors import BbflowError, ConfigError, StreamError
from bbflow.landing.client import request_once
from bbflow.landing.contact import read_contact
from bbflow.leftovers import remove_leftovers, segments
from bbflow.records import Message

POLL_S = 0.2
ANALYSIS_RESTARTS = 3
STOP_TIMEOUT_S = 10.0
NODE_BACK_S = 60.0
"""How long the analysis waits for a BB node's agent to be started again."""
NODE_LOST = os.EX_NOHOST
"""Exit code of an analysis that lost a BB node."""
INTERRUPTED = 130
INCOMPLETE = 3
"""Exit code of an analysis whose stream was aborted: its results are published and marked."""

Process = subprocess.Popen[bytes]


class Supervisor:
    """Runs a simulation with its analysis.

    The analysis is a process of its own: if it is killed, a new one carries on from the checkpoints on the
    nodes, and the simulation notices nothing.

    Parameters
    ----------
    contact
        The BB nodes' contact file.
    stream
        The stream that the simulation writes.
    analysis_command, rescue_command
        Start the analysis, and one that only drains what a failed analysis left.
    show
        Gets the nodes' status again and again.
    """

    def __init__(
        self,
        contact: Path,
        stream: str,
        analysis_command: Sequence[str],
        rescue_command: Sequence[str],
        show: Callable[[list[Message]], object],
    ) -> None:
        self._contact = contact
        self._nodes = read_contact(contact)
        self._stream = stream
        self._analysis_command = analysis_command
        self._rescue_command = rescue_command
        self._show = show
        self._opened = False
        self._restarts = 0

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
            130 after Ctrl-C, else the simulation's exit code, else the analysis'.

        Raises
        ------
        ConfigError
            If the command can't be started.
        StreamError
            If the simulation ended without opening the stream.
        """
        segments_before = segments()
        try:
            return self._run(command, environment)
        finally:
            remove_leftovers(segments_before)

    def _run(self, command: Sequence[str], environment: Mapping[str, str]) -> int:
        analysis = self._start_analysis()
        try:
            simulation = _start(command, environment)
        except BaseException:
            _stop(analysis)
            raise
        interrupted = False
        while True:
            try:
                self._watch(simulation, analysis)
                if not self._must_restart(analysis):
                    break
                analysis = self._start_analysis()
            except KeyboardInterrupt:
                # The first Ctrl-C ends the simulation; what it has committed is still published.
                _signal(simulation, signal.SIGINT)
                if interrupted:
                    _stop(analysis)
                    break
                interrupted = True
            except BaseException:
                _stop(simulation)
                _stop(analysis)
                raise
        code = _stop(simulation)
        if analysis.returncode not in (0, INCOMPLETE):
            subprocess.run(self._rescue_command, stdin=subprocess.DEVNULL, start_new_session=True, check=False)
        return INTERRUPTED if interrupted else code or abs(analysis.returncode)

    def _start_analysis(self) -> Process:
        # A session of its own: Ctrl-C in the terminal is for the simulation first.
        return subprocess.Popen(self._analysis_command, stdin=subprocess.DEVNULL, start_new_session=True)

    def _must_restart(self, analysis: Process) -> bool:
        if (analysis.returncode >= 0 and analysis.returncode != NODE_LOST) or self._restarts >= ANALYSIS_RESTARTS:
            return False
        self._restarts += 1
        return analysis.returncode != NODE_LOST or self._nodes_are_back()

    def _nodes_are_back(self) -> bool:
        """Wait until every node's agent answers: one that was killed may be started again."""
        deadline_s = time.monotonic() + NODE_BACK_S
        while not self._look():
            if time.monotonic() > deadline_s:
                return False
            time.sleep(POLL_S)
        return True

    def _watch(self, simulation: Process, analysis: Process) -> None:
        """Wait until the analysis ends, and after one that did its work for the simulation's end too."""
        while analysis.poll() is None or (analysis.returncode in (0, INCOMPLETE) and simulation.poll() is None):
            ended = simulation.poll() is not None
            self._look()
            if ended and not self._opened:
                raise StreamError(
                    f"the simulation ended with exit code {simulation.returncode} and never opened stream "
                    f"{self._stream!r}: check that its XML selects the engine bbflow, and that 'stream' is its "
                    "parameter Stream (or the IO's name)"
                )
            time.sleep(POLL_S)

    def _look(self) -> bool:
        """Show the nodes' status; False if one doesn't answer."""
        try:
            statuses = [request_once(node, "status") for node in self._nodes]
        except BbflowError:
            with suppress(BbflowError):  # an agent that was started again may have another address
                self._nodes = read_contact(self._contact)
            return False
        streams = [status["streams"].get(self._stream, {}) for status in statuses]
        self._opened = self._opened or any(stream.get("status", "expected") != "expected" for stream in streams)
        if any(streams) or not self._opened:  # at the end the nodes have forgotten it: its last numbers stay
            self._show(statuses)
        return True


def _start(command: Sequence[str], environment: Mapping[str, str]) -> Process:
    try:
        return subprocess.Popen(command, env=dict(environment))
    except OSError as error:
        raise ConfigError(f"can't start the simulation {command[0]!r}: {error.strerror}") from None


def _signal(process: Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        process.send_signal(number)


def _stop(process: Process) -> int:
    """End a process that may still run, and give its exit code."""
    for number in (None, signal.SIGTERM, signal.SIGKILL):
        if number is not None:
            _signal(process, number)
        try:
            return process.wait(STOP_TIMEOUT_S if number is not None else POLL_S)
        except subprocess.TimeoutExpired:
            continue
    return process.wait()
