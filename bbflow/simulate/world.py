"""A discrete-event world with fluid flows: what runs in it are generators, what they share is shared max-min fairly.

A process is a generator. It yields a number to sleep for that number of seconds, or a `Signal` to wait for it.
"""

import heapq
import itertools
import math
from collections.abc import Callable, Generator

import numpy as np

from bbflow.errors import BbflowError
from bbflow.models.sharing import Floats, Indices, fair_rates

Process = Generator["float | Signal", None, None]

MOST_RESOURCES = 4
"""That one flow can need at once: its node, the network, a server, memory."""
_DONE_S = 1e-9
"""A flow is over when what is left of it would take less: no clock tells such times apart."""


class StandstillError(BbflowError):
    """Nothing in a scenario can continue: a policy lets nothing pass, or a room is too small forever."""


class Signal:
    """Something that processes wait for; it comes once."""

    def __init__(self) -> None:
        self.has_come = False
        self._waiting: list[Callable[[], None]] = []

    def come(self) -> None:
        """Wake all that wait, and all that will."""
        self.has_come = True
        waiting, self._waiting = self._waiting, []
        for go_on in waiting:
            go_on()

    def when_come(self, go_on: Callable[[], None]) -> None:
        """Call when it comes, or now if it has."""
        if self.has_come:
            go_on()
        else:
            self._waiting.append(go_on)


class Flow(Signal):
    """Bytes on their way; it comes when they have arrived."""

    __slots__ = ("row",)

    def __init__(self, row: int) -> None:
        super().__init__()
        self.row = row


class World:
    """Time, resources and flows.

    The state of all flows lies in arrays, one row a flow; rows of ended flows are used again. Rates are found
    again once for each moment at which a flow began, ended or got another limit, however many did.

    Parameters
    ----------
    resolution_s
        Everything happens at multiples of it: what would happen between two happens at the later one. So a world has no
        more moments than its time has multiples, however many processes are out of step in it. 0 for exact times.
    """

    def __init__(self, resolution_s: float = 0.0) -> None:
        self._resolution_s = resolution_s
        self.now_s = 0.0
        """Seconds since the world began."""
        self.events = 0
        """Moments at which rates were found, for who wants to know what a run costs."""
        self._calls: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._capacities: list[float] = []
        self._losses: list[float] = []
        self._flows: dict[int, Flow] = {}
        self._free: list[int] = []
        self._through: Indices = np.zeros((0, MOST_RESOURCES), np.intp)
        self._left, self._rates, self._limits, self._counts, self._weights = (np.zeros(0) for _ in range(5))
        self._active = np.zeros(0, bool)
        self._moved_s = 0.0
        self._changed = False
        self._end_s = math.inf  # when the next flow ends, as rates are now

    def resource(self, bytes_per_s: float, loss: float = 0.0) -> int:
        """Make something that can be shared, and return its number.

        Parameters
        ----------
        bytes_per_s
            What it carries for one flow alone.
        loss
            What each further flow costs: n flows together get ``bytes_per_s / (1 + loss (n - 1))``, as disks do that
            seek between streams.
        """
        self._capacities.append(bytes_per_s)
        self._losses.append(loss)
        return len(self._capacities) - 1

    def start(self, process: Process) -> Signal:
        """Start a process; the signal comes when it has ended."""
        ended = Signal()

        def go_on() -> None:
            wanted = next(process, None)
            # In a loop: `when_come` would call at once, one call deeper for each of thousands that have come.
            while isinstance(wanted, Signal) and wanted.has_come:
                wanted = next(process, None)
            if wanted is None:
                ended.come()
            elif isinstance(wanted, Signal):
                wanted.when_come(go_on)
            else:
                self.at(self.now_s + wanted, go_on)

        self.at(self.now_s, go_on)
        return ended

    def at(self, when_s: float, call: Callable[[], None]) -> None:
        """Call something at a time; calls of one time are made in the order in which they were asked for."""
        heapq.heappush(self._calls, (max(self._rounded_s(when_s), self.now_s), next(self._order), call))

    def after(self, seconds: float) -> Signal:
        """Return a signal that comes this many seconds from now."""
        over = Signal()
        self.at(self.now_s + seconds, over.come)
        return over

    def flow(
        self, size_bytes: float, *through: int, limit: float = math.inf, count: int = 1, weight: float = 1.0
    ) -> Flow:
        """Move bytes.

        Parameters
        ----------
        size_bytes
            Of one flow.
        through
            The resources that it needs at once, `MOST_RESOURCES` at most.
        limit
            The most that it may take, in bytes a second; `set_limit` changes it.
        count
            How many equal flows it stands for: they begin and end together.
        weight
            Its share of a bottleneck, to that of others.
        """
        row = self._free.pop() if self._free else self._more_rows()
        flow = Flow(row)
        self._flows[row] = flow
        self._move()
        self._through[row] = -1
        self._through[row, : len(through)] = through
        self._left[row], self._limits[row] = size_bytes, limit
        self._counts[row], self._weights[row] = count, weight
        self._active[row] = self._changed = True
        return flow

    def set_limit(self, flow: Flow, limit: float) -> None:
        """Change the most that a flow may take, in bytes a second; 0 lets it stand still."""
        if self._flows.get(flow.row) is flow and self._limits[flow.row] != limit:
            self._move()
            self._limits[flow.row] = limit
            self._changed = True

    def left_bytes(self, flow: Flow) -> float:
        """Return what has not arrived yet."""
        if self._flows.get(flow.row) is not flow:
            return 0.0
        return max(float(self._left[flow.row] - self._rates[flow.row] * (self.now_s - self._moved_s)), 0.0)

    def run(self, until: Signal | None = None) -> None:
        """Advance time until a signal comes, or until nothing is left to do.

        Raises
        ------
        StandstillError
            If flows are left that never move again, or the signal can't come any more.
        """
        while not (until and until.has_come):
            if self._changed:
                self._share()
            if self._calls and self._calls[0][0] <= self._end_s:
                self.now_s = self._calls[0][0]
                while self._calls and self._calls[0][0] <= self.now_s:
                    heapq.heappop(self._calls)[2]()
            elif math.isfinite(self._end_s):
                self.now_s = self._end_s
                self._end_flows()
            elif self._flows or until:
                raise StandstillError(
                    f"after {self.now_s:.1f} s nothing moves: {len(self._flows)} transfers wait forever; "
                    "a policy that lets nothing pass, or too little room, does this"
                )
            else:
                return

    def _more_rows(self) -> int:
        used = len(self._left)
        size = max(2 * used, 64)
        self._through = np.vstack([self._through, np.full((size - used, MOST_RESOURCES), -1, np.intp)])
        self._left, self._rates, self._limits, self._counts, self._weights = (
            np.concatenate([column, np.zeros(size - used)])
            for column in (self._left, self._rates, self._limits, self._counts, self._weights)
        )
        self._active = np.concatenate([self._active, np.zeros(size - used, bool)])
        self._free = list(range(size - 1, used, -1))
        return used

    def _move(self) -> None:
        """Bring all flows as far as they are now."""
        if self.now_s > self._moved_s:
            self._left -= self._rates * (self.now_s - self._moved_s)
            self._moved_s = self.now_s

    def _share(self) -> None:
        self._move()
        self._changed = False
        self.events += 1
        rows = np.flatnonzero(self._active)
        rows = rows[self._limits[rows] > 0]
        self._rates[:] = 0
        through = self._through[rows]
        counts = self._counts[rows]
        room = self._room(through, counts)
        self._rates[rows] = fair_rates(room, through, counts, self._limits[rows], self._weights[rows])
        self._end_s = self._next_end_s()

    def _room(self, through: Indices, counts: Floats) -> Floats:
        capacities, losses = np.array(self._capacities), np.array(self._losses)
        if losses.any():
            streams = np.zeros(len(capacities) + 1)
            np.add.at(streams, through, counts[:, None])  # what needs no resource has -1: the last place
            capacities = capacities / (1 + losses * np.maximum(streams[:-1] - 1, 0))
        return capacities

    def _next_end_s(self) -> float:
        rows = np.flatnonzero(self._active)
        rates = self._rates[rows]
        moving = rates > 0
        if not moving.any():
            return math.inf
        return self._rounded_s(self._moved_s + float(np.maximum(self._left[rows[moving]] / rates[moving], 0).min()))

    def _rounded_s(self, when_s: float) -> float:
        resolution_s = self._resolution_s
        # What is a multiple but for rounding is that one, and not the next.
        return math.ceil(when_s / resolution_s - 1e-9) * resolution_s if resolution_s else when_s

    def _end_flows(self) -> None:
        self._move()
        rows = np.flatnonzero(self._active)
        # What comes may start flows in rows that were freed here; those are behind us, as the rows were chosen before.
        for row in rows[self._left[rows] <= self._rates[rows] * _DONE_S]:
            flow = self._flows.pop(int(row))
            self._rates[row] = 0
            self._active[row] = False
            self._free.append(int(row))
            self._changed = True
            flow.come()
        self._end_s = self._next_end_s()
