"""A stager on world time: real waves; only the copying is simulated."""

from collections.abc import Sequence
from functools import partial

from bbflow.simulate.fetching import SimulatedFetchers
from bbflow.simulate.world import Signal
from bbflow.staging.actions import Action, Check, Ready, Refused, Stage
from bbflow.staging.files import Task
from bbflow.staging.waves import Waves


class SimulatedStager:
    """Does what `bbflow.staging.Stager` does, with flows instead of copies.

    Parameters
    ----------
    fetchers
        That copy.
    slots, capacity_bytes, lookahead
        As for `Waves`.
    """

    def __init__(self, fetchers: SimulatedFetchers, slots: int, capacity_bytes: int, lookahead: int) -> None:
        self._fetchers, self._slots = fetchers, slots
        self._waves = Waves(slots, capacity_bytes, lookahead)
        self._ready: dict[str, Signal] = {}
        self.errors: list[Exception] = []
        """Why tasks were refused."""
        self.held_bytes = 0
        """The most that lay on the BB, or was reserved."""

    def submit(self, task: Task) -> Signal:
        """Plan the next task; the signal comes when it may run, or never can (then `errors` says why)."""
        ready = self._ready[task.key] = Signal()
        self._fetchers.diary.submitted(task.key, (len(self._ready) - 1) // self._slots)
        self._perform(self._waves.add(task))
        return ready

    def link(self, url: str) -> int:
        """Return the resource through which a file is read that is on the BB."""
        return self._fetchers.link(url)

    def final(self, key: str) -> None:
        """Take in that a task has ended."""
        self._fetchers.diary.final(key)
        self._perform(self._waves.final(key))

    def close(self) -> None:
        """Stop looking at phases."""
        self._fetchers.close()

    def _arrived(self, url: str) -> None:
        self._perform(self._waves.staged(url))

    def _perform(self, actions: Sequence[Action]) -> None:
        self.held_bytes = max(self.held_bytes, self._waves.used_bytes)
        for action in actions:
            match action:
                case Stage(file, wave) | Check(file, wave):
                    self._fetchers.fetch(file, wave, partial(self._arrived, file.url))
                case Ready(key):
                    self._fetchers.diary.ready(key)
                    self._ready[key].come()
                case Refused(key, error):
                    self.errors.append(error)
                    self._ready[key].come()
