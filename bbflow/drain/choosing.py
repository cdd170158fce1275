"""Which raw steps are kept, where a condition on each decides, or a user's function that asks for them."""

from collections.abc import Callable, Mapping

from bbflow.configuring.settings import RawConfig
from bbflow.stream.records import Step

Parts = Mapping[str, Step]


class Choosing:
    """Decides step by step, with some steps before and after those that were chosen.

    Parameters
    ----------
    raw
        What it keeps; it has a condition, or names a function.
    holds
        Says whether the condition holds for a step; None without one.
    last
        The last step before those that come that was chosen; None if none was.
    """

    def __init__(self, raw: RawConfig, holds: Callable[[Parts], bool] | None, last: int | None) -> None:
        self._raw, self._holds = raw, holds
        self._hits: list[int] = [] if last is None else [last]
        self._seen = -1

    def look_at(self, number: int, parts: Parts, *, asked: bool = False) -> None:
        """Decide whether a step is chosen; they come in their order, and may come again.

        Parameters
        ----------
        number
            The step's.
        parts
            What lies of it on the nodes.
        asked
            Whether a user's function has asked for it.

        Raises
        ------
        ConfigError
            If a variable isn't a single value where one is needed.
        """
        if number > self._seen:
            self._seen = number
            if asked or (self._holds is not None and self._holds(parts)):
                self._hits.append(number)

    def keeps(self, number: int) -> bool:
        """Whether a step is kept; those up to `before` steps later must have been looked at."""
        return any(hit - self._raw.before <= number <= hit + self._raw.after for hit in reversed(self._hits))

    def last_hit(self, through: int) -> int | None:
        """Return the last step up to one that was chosen; earlier ones matter no more."""
        before = [hit for hit in self._hits if hit <= through]
        self._hits = before[-1:] + [hit for hit in self._hits if hit > through]
        return before[-1] if before else None
