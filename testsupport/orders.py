"""Programs that take turns: each order of their steps is tried, up to a number of turns out of turn."""

from itertools import count


class Programs:
    """Programs in one order: each is a generator that yields between its steps, what it waits for or None.

    The one that is at it continues until it waits or is over; then the next that can. `turns` are the steps at which
    another one comes instead.
    """

    def __init__(self, turns):
        self.turns, self.seen = turns, []
        self._all, self._background = [], set()

    def start(self, program, *, is_background=False):
        """Start one; those in the background come last, and may wait forever."""
        if is_background:
            self._background.add(len(self._all))
        self._all.append([program, None])

    def run(self):
        last = 0
        while able := self._able():
            order = sorted(able, key=lambda number: (number != last, number in self._background, number))
            chosen = order[self.turns.get(len(self.seen), 0)]
            self.seen.append(len(order))
            last = chosen
            try:
                self._all[chosen][1] = next(self._all[chosen][0])
            except StopIteration:
                self._all[chosen] = None
        left = {number for number, one in enumerate(self._all) if one is not None}
        assert left <= self._background, "all wait for each other"

    def _able(self):
        return [number for number, one in enumerate(self._all) if one is not None and (one[1] is None or one[1]())]


def search(begin, most_turns, most_runs):
    """Try orders until one breaks something; return its turns and what broke, or None and how many were tried.

    Parameters
    ----------
    begin
        Gives, for programs that take turns, a function that raises AssertionError if their end is wrong.
    most_turns
        How many steps of a run come out of turn, at most.
    most_runs
        How many orders are tried.
    """
    waiting = [{}]
    for number in count():
        if not waiting or number == most_runs:
            return None, number
        turns = waiting.pop(0)
        programs = Programs(turns)
        check = begin(programs)
        try:
            programs.run()
            check()
        except AssertionError as wrong:
            return turns, wrong
        if len(turns) < most_turns:
            start = max(turns, default=-1) + 1
            waiting += [
                {**turns, step: other}
                for step in range(start, len(programs.seen))
                for other in range(1, programs.seen[step])
            ]
    raise AssertionError
