"""A stager on world time: real waves, diary, watch and policies; only the copying is a flow."""

from collections import deque
from collections.abc import Callable, Sequence

from bbflow.events import EventLog
from bbflow.phases import PhaseSource
from bbflow.simulate.gate import FluidGate
from bbflow.simulate.sections import BurstBuffer
from bbflow.simulate.world import Process, Signal, StandstillError, World
from bbflow.staging.actions import Action, Check, Ready, Refused, Stage
from bbflow.staging.diary import Diary
from bbflow.staging.fetchers import Fetched, Job
from bbflow.staging.files import Task
from bbflow.staging.policies import Policy
from bbflow.staging.watching import POLL_S, Watch
from bbflow.staging.waves import Waves

STARVED_S = 3600.0
"""A policy that lets nothing pass for so long will never do so."""


class SimulatedStager:
    """Does what `bbflow.staging.Stager` does, with flows instead of copies.

    Parameters
    ----------
    world
        Where it lives.
    given
        The BB nodes.
    slots, lookahead
        As for `Waves`.
    source
        The resource that files come from.
    links
        Those of the BB nodes, which take turns.
    policy, phases
        As for the real one.
    share
        Gives the next stream's share of the source, to an equal share.
    events
        Where everything that happens is noted; nowhere if None.
    """

    def __init__(
        self,
        world: World,
        given: BurstBuffer,
        slots: int,
        lookahead: int,
        source: int,
        links: Sequence[int],
        policy: Policy,
        phases: PhaseSource | None,
        share: Callable[[], float],
        events: EventLog | None = None,
    ) -> None:
        def clock() -> float:
            return world.now_s

        self._world, self._given, self._source, self._links, self._share = world, given, source, links, share
        self._slots = slots
        self._waves = Waves(slots, len(links) * given.node_capacity_bytes, lookahead)
        self._diary = Diary(events, clock, slots)
        self._gate = FluidGate(world, given.fetchers)
        self._watch = Watch(
            policy, self._gate, phases, self._diary.load, clock, self._diary.decided, self._diary.phase
        )  # fmt: skip
        self._queue: deque[Job] = deque()
        self._idle = deque(range(policy.most_fetchers(given.fetchers)))
        self._asked = 0
        self._ready: dict[str, Signal] = {}
        self._where: dict[str, int] = {}
        self._closed = False
        self.errors: list[Exception] = []
        """Why tasks were refused."""
        self.held_bytes = 0
        """The most that lay on the BB, or was reserved."""
        self._watch.step()
        world.start(self._look_again_and_again())

    def submit(self, task: Task) -> Signal:
        """Plan the next task; the signal comes when it may run, or never can (then `errors` says why)."""
        ready = self._ready[task.key] = Signal()
        self._diary.submitted(task.key, (len(self._ready) - 1) // self._slots)
        self._perform(self._waves.add(task))
        return ready

    def link(self, url: str) -> int:
        """Give the resource through which a file is read that is on the BB."""
        return self._where[url]

    def final(self, key: str) -> None:
        """Say that a task has ended."""
        self._diary.final(key)
        self._perform(self._waves.final(key))

    def close(self) -> None:
        """Stop looking at phases."""
        self._closed = True
        self._diary.close()

    def _look_again_and_again(self) -> Process:
        passed_bytes, passed_s = 0, self._world.now_s
        while not self._closed:
            yield POLL_S
            self._watch.step()
            if self._gate.passed_bytes > passed_bytes or not self._diary.remaining_bytes:
                passed_bytes, passed_s = self._gate.passed_bytes, self._world.now_s
            elif self._world.now_s - passed_s > STARVED_S:
                raise StandstillError(
                    f"nothing was transferred for {STARVED_S:g} s: {self._gate.decision.reason or 'no fetcher runs'}; "
                    "give the policy a shorter max_delay_s, or choose another"
                )

    def _perform(self, actions: Sequence[Action]) -> None:
        for action in actions:
            match action:
                case Stage(file, wave) | Check(file, wave):
                    self._diary.wanted(file)
                    self._queue.append(Job(file, wave, self._asked))
                    self._asked += 1
                case Ready(key):
                    self._diary.ready(key)
                    self._ready[key].come()
                case Refused(key, error):
                    self.errors.append(error)
                    self._ready[key].come()
        self.held_bytes = max(self.held_bytes, self._waves.used_bytes)
        while self._queue and self._idle:
            self._world.start(self._fetch(self._idle.popleft(), self._queue.popleft()))

    def _fetch(self, fetcher: int, job: Job) -> Process:
        link, began_s, size = self._links[fetcher % len(self._links)], self._world.now_s, job.file.size_bytes or 0
        self._where[job.file.url] = link
        yield self._gate.begin(
            job.rank,
            size,
            self._source,
            link,
            limit=self._given.fetcher_bytes_per_s,
            weight=self._given.fetcher_weight * self._share(),
        )
        self._diary.copied([Fetched(job, fetcher, began_s, self._world.now_s, size)])
        self._idle.append(fetcher)
        self._perform(self._waves.staged(job.file.url))
