"""Streams that aren't folded, drained or read: what a run finds of them, and how it rescues them from its nodes."""

import shlex
import threading
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from bbflow.configuring.settings import Config
from bbflow.configuring.step_time import TimeConfig
from bbflow.errors import BbflowError, describe
from bbflow.host.log import tell
from bbflow.landing.absent import give_up_absent
from bbflow.landing.client import status_of
from bbflow.landing.embedded import EmbeddedNodes
from bbflow.landing.replies import StatusReply, StreamStatus
from bbflow.net.contact import read_contact
from bbflow.run.course import Course, KeepsRun
from bbflow.transit.output.claiming import UNFOLDED_DIRECTORY
from bbflow.zarr_store.stored_names import stored_name

PATIENCE_S = 60.0
"""How long a rank waits for room that only a reader could make, before its stream is rescued."""


@dataclass(frozen=True, slots=True)
class Stray:
    """A stream without a consumer."""

    name: str
    """As the writers opened it."""
    steps: int
    """Whole steps of it that haven't been taken."""
    torn: int = 0
    """Steps of it that were begun, and are not whole."""
    is_open: bool = False
    """Whether more steps may come."""
    waits: bool = False
    """Whether a rank waits for room, and there is no reader who could make it."""
    store: Path | None = None
    """Where its steps are, if they were rescued."""
    left_out: tuple[str, ...] = ()
    """Variables that the store can't have, at least of some steps, each with the reason."""


def strays_of(statuses: Sequence[StatusReply], before: Collection[str] = ()) -> list[Stray]:
    """Find the streams without a consumer.

    Parameters
    ----------
    statuses
        What each node says.
    before
        Streams that don't count.
    """
    names = sorted({name for status in statuses for name in status.streams}.difference(before))
    found = (_stray(name, [status.streams[name] for status in statuses if name in status.streams]) for name in names)
    return [stray for stray in found if stray is not None]


def _stray(name: str, parts: Sequence[StreamStatus]) -> Stray | None:
    if any(part.consumers for part in parts):
        return None
    steps = max(part.unclaimed for part in parts)
    torn = max(0, *(part.written - part.landed - part.discarded for part in parts))
    is_open = all(part.status != "aborted" for part in parts) and any(part.status == "open" for part in parts)
    waits = any(part.waiting and part.unclaimed and not part.readers for part in parts)
    return Stray(name, steps, torn, is_open, waits) if steps or torn else None


def statuses_of(contact: Path) -> list[StatusReply]:
    """Ask the nodes that answer; none do whose contact file is gone."""
    found = []
    with suppress(BbflowError):
        for node in read_contact(contact):
            with suppress(BbflowError):
                found.append(status_of(node))
    return found


def describe_left(stray: Stray, contact: Path) -> str:
    """Return what nodes that stay still hold of a stream, and what to do with it."""
    words = [stray.name, "--contact", str(contact)]
    return (
        f"{_named(stray)}: it stays on the BB nodes; fold it with a configuration that names it ('bbflow fold'), write "
        f"it with '{shlex.join(['bbflow', 'rescue', *words])}', or forget it with "
        f"'{shlex.join(['bbflow', 'drop', *words])}'"
    )


def _named(stray: Stray) -> str:
    torn = f" and {stray.torn} that are not whole" if stray.torn else ""
    return f"NOTHING FOLDED, DRAINED OR READ STREAM {stray.name!r}, {stray.steps} steps{torn}"


class StrayRescue(threading.Thread):
    """Writes the steps of one such stream to a store, until the stream ends.

    Parameters
    ----------
    contact
        The nodes' contact file.
    stray
        The stream.
    directory
        For the store.
    time
        What tells the steps' time.
    """

    def __init__(self, contact: Path, stray: Stray, directory: Path, time: TimeConfig) -> None:
        super().__init__(name=f"rescue-{stray.name}", daemon=True)
        self._contact, self._directory, self._time = contact, directory, time
        self.stray = stray
        """The stream as it is now."""
        self.failure = ""
        """Why it can't be rescued: the nodes still have it."""

    def run(self) -> None:
        """Rescue."""
        from bbflow.drain.rescuing import Rescue  # late: few runs need it

        try:
            rescued = Rescue(self._contact, self.stray.name, self._directory, self._time).run()
        except Exception as error:  # whatever it is, the steps stay on the nodes, and the run must come to its end
            self.failure = describe(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
        else:
            store = rescued.store if rescued.steps else None
            self.stray = replace(self.stray, steps=rescued.steps, store=store, left_out=rescued.left_out)


class Strays:
    """Looks for such streams while a run lasts. From nodes that go with it they are rescued.

    That is done at the end, or when their ranks wait for room that never comes.

    Parameters
    ----------
    file, config
        The run's configuration, and what it says.
    contact
        The nodes' contact file.
    embedded
        The nodes, if they go with the run; on others only the streams count that come while it lasts.
    own
        Streams of the run's own, which need no consumer.
    patience_s
        How long a stream's ranks wait for room before it is rescued.
    """

    def __init__(
        self,
        file: Path,
        config: Config,
        contact: Path,
        embedded: EmbeddedNodes | None,
        own: Collection[str] = (),
        *,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._patience_s = patience_s
        self._file, self._stream, self._time = file, config.stream, config.time
        self._contact, self._embedded = contact, embedded
        self._directory = config.output / UNFOLDED_DIRECTORY
        self._before = (names_on(contact) if embedded is None else set[str]()).union(own)
        self._waiting_since_s: dict[str, float] = {}
        self._rescues: dict[str, StrayRescue] = {}
        self.held: list[str] = []
        """Streams that could not be rescued, at the end."""

    def look(self, statuses: Sequence[StatusReply]) -> None:
        """Begin to rescue what waits for room: neither the program nor the run would ever end."""
        now_s = time.monotonic()
        waiting = [stray for stray in strays_of(statuses) if stray.waits] if self._embedded is not None else []
        self._waiting_since_s = {stray.name: self._waiting_since_s.get(stray.name, now_s) for stray in waiting}
        for stray in waiting:
            if now_s >= self._waiting_since_s[stray.name] + self._patience_s and stray.name not in self._rescues:
                why = f"stream {stray.name!r} waits for room, and isn't folded or read"
                tell(f"{why}: it is rescued to {self._place(stray)}")
                self._begin(stray)

    def end(self, course: Course) -> list[str]:
        """Rescue them all, now that the program has ended, and say where each has gone.

        Parameters
        ----------
        course
            As the run ended.
        """
        strays = strays_of(statuses_of(self._contact), self._before)
        if self._embedded is None:
            return [describe_left(stray, self._contact) for stray in strays if not stray.is_open]
        if course.keeping is KeepsRun.HELD:
            self.held = [stray.name for stray in strays]
        elif course.keeping is not KeepsRun.LEFT:
            with suppress(KeyboardInterrupt):  # the user can't wait
                self._rescue(strays)
        self.held += [name for name, rescue in self._rescues.items() if rescue.failure]
        return [self._describe(stray) for stray in ({stray.name: stray for stray in strays} | self._last).values()]

    def _rescue(self, strays: Sequence[Stray]) -> None:
        nodes = read_contact(self._contact)
        for stray in strays:
            give_up_absent(nodes, statuses_of(self._contact), stray.name)
            self._begin(stray)
            self._rescues[stray.name].join()  # one after the other: there may be hundreds
        for rescue in self._rescues.values():
            rescue.join()

    @property
    def _last(self) -> dict[str, Stray]:
        return {name: rescue.stray for name, rescue in self._rescues.items()}

    def _describe(self, stray: Stray) -> str:
        rescue = self._rescues.get(stray.name)
        if stray.name in self.held:
            return f"{_named(stray)}: it is still on the BB nodes" + (f" ({rescue.failure})" if rescue else "")
        if rescue is None or rescue.is_alive():
            return f"{_named(stray)}: what is not rescued is lost, as you wished"
        if stray.store is None:
            return f"{_named(stray)}: there was nothing to rescue"
        replay = ["--", "bbflow", "replay", str(stray.store), "--stream", self._stream]
        but = f" but for {'; '.join(stray.left_out)}" if stray.left_out else ""
        return (
            f"{_named(stray)}: they are in {stray.store}{but}; to have their statistics, give another output and run "
            f"'{shlex.join(['bbflow', 'run', str(self._file), *replay])}'"
        )

    def _begin(self, stray: Stray) -> None:
        rescue = StrayRescue(self._contact, stray, self._place(stray), self._time)
        self._rescues[stray.name] = rescue
        rescue.start()

    def _place(self, stray: Stray) -> Path:
        return self._directory / stored_name(stray.name)


def names_on(contact: Path) -> set[str]:
    """Return the streams that nodes know."""
    return {name for status in statuses_of(contact) for name in status.streams}
