"""Streams whose ranks on one node never come, while those on other nodes have closed it: no node knows of that."""

import time
from collections.abc import Callable

from bbflow.view.consumers import Consumers
from bbflow.view.stream import StreamView

PATIENCE_S = 60.0
"""How long they may come; `bbflow run` doesn't wait, since it knows when the program has ended."""


class Forsaken:
    """Ends such a stream as aborted.

    Parameters
    ----------
    view
        The stream over all nodes.
    consumers
        Whose connections to the nodes are used.
    clock
        Gives seconds that never run backwards.
    """

    def __init__(self, view: StreamView, consumers: Consumers, clock: Callable[[], float] = time.monotonic) -> None:
        self._view, self._consumers, self._clock = view, consumers, clock
        self._since_s: float | None = None

    def look(self) -> None:
        """End the stream if it has been so for long enough."""
        if not self._view.is_forsaken:
            self._since_s = None
        elif self._since_s is None:
            self._since_s = self._clock()
        elif self._clock() >= self._since_s + PATIENCE_S:
            self._consumers.give_up()
