"""Watching the nodes: one thread waits for the news of all of them."""

import queue
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from bbflow.errors import BbflowError, NodeError, StreamError
from bbflow.landing.client import NodeClient
from bbflow.landing.replies import Shown
from bbflow.landing.requests import WatchRequest
from bbflow.net.connection import GRACE_S
from bbflow.net.contact import NodeAddress
from bbflow.stream.layouts import Layouts
from bbflow.view.returning import Returning
from bbflow.view.stream import STEPS_PER_REPLY, News

POLL_S = 5.0
LOOK_S = 1.0
"""How often it is looked for nodes that don't answer."""
NOBODY: Mapping[str, int] = {}


@dataclass(slots=True, eq=False)
class _Watched:
    """One node."""

    client: NodeClient
    after: int
    """Last step that is known."""
    change: int = -1
    """The node's, when it was heard last."""
    layouts: Layouts = field(default_factory=Layouts)
    """Those that came over the connection."""
    asked_s: float = 0.0
    """When it was asked (`time.monotonic`)."""
    gone: NodeError | None = None
    """By what it was missed, until it is heard again."""
    until_s: float = 0.0
    """Then, how long it is waited for."""

    @property
    def name(self) -> str:
        return self.client.node.name


class StreamWatch(threading.Thread):
    """Waits for news of nodes and puts them, or the error that ended it for a node, into a queue.

    A thread for each of a thousand nodes would take the lock of Python's interpreter from all else again and again.

    Parameters
    ----------
    nodes
        Whom to watch.
    stream
        Which stream.
    news
        Gets ``(node name, News or error)``.
    after
        Last step that is known already, by node.
    extremes
        Whether the blocks' minima and maxima are wanted.
    rest_s
        So long a node is asked for no more after each step (seconds): those that come fast come together then.
    epochs
        By which number each node knows the analysis that watches; another one's news aren't taken then.
    returning
        Waits for a node whose agent is killed; without it that is an error at once.
    patience_s
        A node that gives no answer for so long is missed (seconds).
    reply_steps
        Of how many steps a node tells at once, at most.
    """

    def __init__(
        self,
        nodes: Sequence[NodeAddress],
        stream: str,
        news: "queue.SimpleQueue[Any]",
        after: Mapping[str, int] = NOBODY,
        *,
        extremes: bool = False,
        rest_s: float = 0.0,
        epochs: Mapping[str, int] = NOBODY,
        returning: Returning | None = None,
        patience_s: float = POLL_S + GRACE_S,
        reply_steps: int = STEPS_PER_REPLY,
    ) -> None:
        super().__init__(name="watch", daemon=True)
        self._watched: list[_Watched] = []
        self._back: queue.SimpleQueue[tuple[_Watched, NodeClient | BbflowError]] = queue.SimpleQueue()
        # The pair wakes the selector: `stop`, and threads that have waited for nodes.
        self._selector, (self._woken, self._wakes) = selectors.DefaultSelector(), socket.socketpair()
        try:
            for node in nodes:
                self._watched.append(_Watched(NodeClient(node), after.get(node.name, -1)))
        except BaseException:
            self._close()
            raise
        self._stream, self._news = stream, news
        self._extremes, self._rest_s, self._epochs, self._returning = extremes, rest_s, epochs, returning
        self._patience_s, self._reply_steps, self._stopped = patience_s, reply_steps, threading.Event()
        self._resting: deque[tuple[float, _Watched]] = deque()
        self._looked_s = 0.0

    def run(self) -> None:
        """Watch until `stop`."""
        self._selector.register(self._woken, selectors.EVENT_READ)
        try:
            for watched in [*self._watched]:
                self._begin(watched)
            while not self._stopped.is_set():
                self._turn()
        finally:
            self._stopped.set()
            self._close()

    def _close(self) -> None:
        for watched in self._watched:
            watched.client.close()
        self._close_returned()
        for item in (self._selector, self._woken, self._wakes):
            item.close()

    def _close_returned(self) -> None:
        with suppress(queue.Empty):
            while True:
                _, found = self._back.get_nowait()
                if isinstance(found, NodeClient):
                    found.close()

    def _turn(self) -> None:
        """Ask those who have rested, and hear those who have something to say."""
        now_s = time.monotonic()
        while self._resting and self._resting[0][0] <= now_s:
            self._ask(self._resting.popleft()[1])
        rest_s = self._resting[0][0] - now_s if self._resting else LOOK_S
        for key, _ in self._selector.select(max(min(rest_s, LOOK_S), 0.0)):
            if key.data is None:
                self._woken.recv(1)
                self._take_back()
            else:
                self._hear(key.data)
        if now_s > self._looked_s + LOOK_S:
            self._looked_s = now_s
            for watched in [*self._watched]:
                is_asked = watched.client.fileno() >= 0  # else it is waited for; by then it may not have been heard
                if is_asked and now_s > watched.asked_s + self._rest_s + self._patience_s:
                    self._miss(watched, NodeError(f"BB node {watched.name} is gone (timed out)"))

    def _begin(self, watched: _Watched) -> None:
        self._selector.register(watched.client, selectors.EVENT_READ, watched)
        self._ask(watched)

    def _ask(self, watched: _Watched) -> None:
        watched.asked_s = time.monotonic()
        try:
            watched.client.ask(self._request(watched))
        except NodeError as error:
            self._miss(watched, error)

    def _request(self, watched: _Watched) -> WatchRequest:
        return WatchRequest(
            stream=self._stream,
            after=watched.after,
            change=watched.change,
            limit=self._reply_steps,
            timeout_s=POLL_S,
            extremes=self._extremes,
            epoch=self._epochs.get(watched.name),
        )

    def _hear(self, watched: _Watched) -> None:
        try:
            shown = watched.client.heard(Shown)
            if shown is None:
                return
            news = News.of(shown, watched.layouts)
        except NodeError as error:
            self._miss(watched, error)
            return
        except BbflowError as error:  # a node that comes back without the stream is as good as lost
            self._give_up(watched, watched.gone if watched.gone and isinstance(error, StreamError) else error)
            return
        watched.gone = None
        # No change has the number -1: a node that has more to tell answers at once.
        watched.change = -1 if news.more else shown.change
        watched.after = max([watched.after, *(step.number for step in news.steps)])
        self._news.put((watched.name, news))
        if news.steps and not news.more and self._rest_s:
            self._resting.append((time.monotonic() + self._rest_s, watched))
        else:
            self._ask(watched)

    def _miss(self, watched: _Watched, error: NodeError) -> None:
        """Wait for a node whose connection has broken, in a thread of its own."""
        if self._returning is None:
            self._give_up(watched, error)
            return
        self._leave(watched)
        if watched.gone is None:
            watched.gone, watched.until_s = error, self._returning.until_s()
        # Beside this thread: the other nodes' news don't wait for one that is away.
        threading.Thread(target=self._await, args=(watched,), name=f"await-{watched.name}", daemon=True).start()

    def _await(self, watched: _Watched) -> None:
        assert self._returning is not None
        assert watched.gone is not None
        found: NodeClient | BbflowError
        try:
            found = self._returning.client(watched.client.node, watched.gone, watched.until_s)
        except BbflowError as error:  # or the contact file can't be read any more
            found = error
        self._back.put((watched, found))
        self._wake()
        if self._stopped.is_set():  # it may not be taken any more
            self._close_returned()

    def _take_back(self) -> None:
        while not self._back.empty():
            watched, found = self._back.get()
            if isinstance(found, BbflowError):
                self._put(watched, found)
                continue
            # An agent counts changes from its own start, and tells each layout once over a connection.
            watched.client, watched.change, watched.layouts = found, -1, Layouts()
            self._begin(watched)

    def _give_up(self, watched: _Watched, error: BbflowError) -> None:
        self._leave(watched)
        self._watched.remove(watched)
        self._put(watched, error)

    def _put(self, watched: _Watched, error: BbflowError) -> None:
        if not self._stopped.is_set():
            self._news.put((watched.name, error))

    def _leave(self, watched: _Watched) -> None:
        with suppress(KeyError):
            self._selector.unregister(watched.client)
        watched.client.close()
        self._resting = deque(item for item in self._resting if item[1] is not watched)

    def _wake(self) -> None:
        with suppress(OSError):
            self._wakes.send(b"\0")

    def stop(self) -> None:
        """End soon; the thread is a daemon and need not be joined."""
        self._stopped.set()
        if self.ident is None:
            self._close()
        self._wake()
