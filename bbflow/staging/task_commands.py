"""Carries out a plan: each task's command once its files are there, at most this many at once."""

import errno
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue

from bbflow.errors import TaskError
from bbflow.staging.stager import Locations, Stager
from bbflow.staging.staging_plan import PlanStep, words_of


class Commands:
    """The commands that run now, each in a process group of its own, so that they end with all that they started.

    Parameters
    ----------
    grace_s
        How long one has to end by itself once it is told to, in seconds.
    """

    def __init__(self, grace_s: float = 5.0) -> None:
        self._grace_s = grace_s
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._is_stopped = False

    def run(self, words: Sequence[str]) -> int:
        """Run a command, and return its exit code.

        Raises
        ------
        OSError
            If it can't be started; an `InterruptedError` if the others were told to end.
        """
        with self._lock:
            if self._is_stopped:
                raise InterruptedError(errno.EINTR, "the plan was stopped")
            process = subprocess.Popen(words, start_new_session=True)
            self._running.add(process)
        try:
            return process.wait()
        finally:
            with self._lock:
                self._running.discard(process)

    def stop(self) -> None:
        """End all commands; none begins any more."""
        with self._lock:
            self._is_stopped = True
            running = list(self._running)
        end_s = time.monotonic() + self._grace_s
        try:
            _signal(running, signal.SIGTERM)
            for process in running:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(max(0.0, end_s - time.monotonic()))
        finally:  # at once, if the user doesn't wait
            _signal(running, signal.SIGKILL)


def _signal(processes: Sequence["subprocess.Popen[bytes]"], number: signal.Signals) -> None:
    for process in processes:
        with suppress(ProcessLookupError):  # it has ended, and all that it started
            os.killpg(process.pid, number)


def run_plan(
    stager: Stager, steps: Sequence[PlanStep], slots: int, on_end: Callable[[PlanStep], None], commands: Commands
) -> None:
    """Stage the files of all tasks, and run their commands; outputs are staged out to their URLs.

    Parameters
    ----------
    stager
        Does the staging.
    steps
        The plan.
    slots
        Commands at once.
    on_end
        Called after each task, in the order in which they end.
    commands
        Runs them.

    Raises
    ------
    BbflowError
        That of the first task that failed; those that have not begun never do.
    """
    ended: SimpleQueue[tuple[PlanStep, Future[None]]] = SimpleQueue()
    with ThreadPoolExecutor(slots, "bbflow-task") as pool:

        def begin(step: PlanStep, ready: "Future[Locations]") -> None:
            pool.submit(_run, stager, commands, step, ready).add_done_callback(lambda end: ended.put((step, end)))

        try:
            # A slot must not wait for a task in program order: one whose source tells its size late is admitted after
            # later ones, which may hold the room that it needs until they have run.
            for step in steps:
                ready = stager.submit(step.task.key, step.task.inputs, step.task.outputs)
                ready.add_done_callback(partial(begin, step))
            for _ in steps:
                step, end = ended.get()
                end.result()
                on_end(step)
        except BaseException:
            # First: it fails the tasks that wait for files, whose threads the pool's end waits for.
            stager.close()
            pool.shutdown(cancel_futures=True)
            raise


def _run(stager: Stager, commands: Commands, step: PlanStep, ready: "Future[Locations]") -> None:
    places = ready.result()
    if step.command:
        _run_command(commands, step, places)
        _stage_out(stager, step, places)
    stager.final(step.task.key)
    for file in step.task.outputs:
        stager.release(file.url)


def _run_command(commands: Commands, step: PlanStep, places: Locations) -> None:
    words = words_of(step, places)
    try:
        code = commands.run(words)
    except OSError as error:
        raise TaskError(f"task {step.task.key!r}: can't run {words[0]}: {error.strerror}") from None
    if code:
        raise TaskError(f"task {step.task.key!r}: {words[0]} ended with code {code}")


def _stage_out(stager: Stager, step: PlanStep, places: Locations) -> None:
    """Copy the outputs that lie on the BB to where their URLs say."""
    copies = []
    for file in step.task.outputs:
        path = places[file.url]
        if not isinstance(path, Path) or path != stager.path(file.url):
            continue  # written directly
        if not path.exists():
            raise TaskError(f"task {step.task.key!r} ended well without making {file.url} at {path}")
        copies.append(stager.stage_out(path, file.url))
    for copy in copies:
        copy.result()
