"""Streams whose ranks on one node never come, while those on other nodes have closed it: no node knows of that."""

import time
from collections.abc import Callable

from bbflow.view.consumers import Consumers
from bbflow.view.stream import StreamView

PATIENCE_S = 60.0
"""How long they may come; `bbflow run` doesn't wait, since it knows when the program has ended."""
LOST_PATIENCE_S = 600.0
"""The same if they may be those of a lost node: they find out by its silence, and wait `NodeLossTimeoutSecs` then."""


class Forsaken:
    """Ends such a stream as aborted.

    Parameters
    ----------
    view
        The stream over all nodes.
    consumers
        Whose connections to the nodes are used.
    patience_s
        How long the ranks may come.
    clock
        Gives seconds that never run backwards.
    """

    def __init__(
        self,
        view: StreamView,
        consumers: Consumers,
        patience_s: float = PATIENCE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._view, self._consumers, self._patience_s, self._clock = view, consumers, patience_s, clock
        self._since_s: float | None = None

    def look(self) -> None:
        """End the stream if it has been so for long enough."""
        if not self._view.is_forsaken:
            self._since_s = None
        elif self._since_s is None:
            self._since_s = self._clock()
        elif self._clock() >= self._since_s + self._patience_s:
            self._consumers.give_up()
