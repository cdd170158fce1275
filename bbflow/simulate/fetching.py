"""Fetchers on world time: the real watch, diary and policies; only the copying is a flow."""

from collections import deque
from collections.abc import Callable, Sequence

from bbflow.phases import PhaseSource
from bbflow.simulate.gate import FluidGate
from bbflow.simulate.scenario_sections import BurstBufferSection
from bbflow.simulate.world import Process, Signal, StandstillError, World
from bbflow.staging.diary import Diary
from bbflow.staging.fetching import Fetched, FetchJob
from bbflow.staging.files import File
from bbflow.staging.policies import Policy
from bbflow.staging.watching import POLL_S, Watch

STARVED_S = 3600.0
"""A policy that lets nothing pass for this long will never do so."""
UPLOADS = 2
"""Files that are staged out at once, as the real stager does."""


class SimulatedFetchers:
    """Copies files as the stager's fetchers do, with flows.

    Parameters
    ----------
    world
        Where they live.
    given
        The BB nodes.
    slots
        Tasks that run at once: what the diary guesses deadlines from.
    source
        The resource that files come from.
    links
        Those of the BB nodes, which take turns.
    policy, phases
        As for the real stager.
    share
        Gives the next stream's share of the source, to an equal share.
    """

    def __init__(
        self,
        world: World,
        given: BurstBufferSection,
        slots: int,
        source: int,
        links: Sequence[int],
        policy: Policy,
        phases: PhaseSource | None,
        share: Callable[[], float],
    ) -> None:
        def clock() -> float:
            return world.now_s

        self._world, self._given, self._source, self._links, self._share = world, given, source, links, share
        self.diary = Diary(None, clock, slots)
        """What has happened so far."""
        self._gate = FluidGate(world, given.fetchers)
        self._watch = Watch(
            policy, self._gate, phases, self.diary.load, clock, self.diary.decided, self.diary.phase
        )  # fmt: skip
        self._queue: deque[tuple[FetchJob, Callable[[], None]]] = deque()
        self._idle = deque(range(policy.most_fetchers(given.fetchers)))
        self._leaving: deque[tuple[float, int, Signal]] = deque()
        self._uploading = 0
        self._asked = 0
        self._where: dict[str, int] = {}
        self._closed = False
        self._watch.recall()
        self._watch.step()
        world.start(self._look_again_and_again())

    def fetch(self, file: File, wave: int, arrived: Callable[[], None]) -> None:
        """Fetch a file after those that were asked for before; call when it is there."""
        self.diary.wanted(file)
        rank, self._asked = self._asked, self._asked + 1
        self._queue.append((FetchJob(file, wave, rank), arrived))
        self._begin()

    def link(self, url: str) -> int:
        """Return the resource through which a file is read that has come, or is coming."""
        return self._where[url]

    def stage_out(self, size_bytes: float, link: int) -> Signal:
        """Copy a file from a BB node to the source; the signal comes when it is there."""
        done = Signal()
        self._leaving.append((size_bytes, link, done))
        if self._uploading < UPLOADS:
            self._uploading += 1
            self._world.start(self._upload())
        return done

    def close(self) -> None:
        """Stop looking at phases."""
        self._closed = True
        self.diary.close()

    def _look_again_and_again(self) -> Process:
        passed_bytes, passed_s = 0, self._world.now_s
        while not self._closed:
            yield POLL_S
            self._watch.step()
            now_bytes = self._gate.passed_bytes
            if now_bytes > passed_bytes or not self.diary.remaining_bytes:
                passed_bytes, passed_s = now_bytes, self._world.now_s
            # A policy that never lets a transfer pass would simulate forever.
            elif self._world.now_s - passed_s > STARVED_S:
                raise StandstillError(
                    f"nothing was transferred for {STARVED_S:g} s: {self._gate.decision.reason or 'no fetcher runs'}; "
                    "give the policy a shorter max_delay_s, or choose another"
                )

    def _begin(self) -> None:
        while self._queue and self._idle:
            self._world.start(self._fetch(self._idle.popleft(), *self._queue.popleft()))

    def _fetch(self, fetcher: int, job: FetchJob, arrived: Callable[[], None]) -> Process:
        link, began_s, size = self._links[fetcher % len(self._links)], self._world.now_s, job.file.size_bytes or 0
        self._where[job.file.url] = link
        yield self._pass(job.rank, size, self._source, link)
        self.diary.copied([Fetched(job, fetcher, began_s, self._world.now_s, size)])
        self._idle.append(fetcher)
        arrived()
        self._begin()

    def _upload(self) -> Process:
        while self._leaving:
            size_bytes, link, done = self._leaving.popleft()
            rank, self._asked = self._asked, self._asked + 1
            with self.diary.staging_out(int(size_bytes)):
                yield self._pass(rank, size_bytes, link, self._source)
            done.come()
        self._uploading -= 1

    def _pass(self, rank: int, size_bytes: float, *through: int) -> Signal:
        given = self._given
        weight = given.fetcher_weight * self._share()
        return self._gate.begin(rank, size_bytes, *through, limit=given.fetcher_bytes_per_s, weight=weight)
