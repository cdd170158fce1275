"""Watching the nodes: a thread for each waits for its news."""

import queue
import threading
from typing import Any

from bbflow.errors import BbflowError
from bbflow.landing.client import NodeClient
from bbflow.landing.contact import NodeAddress
from bbflow.view.stream import STEPS_PER_REPLY

POLL_S = 5.0


class Watcher(threading.Thread):
    """Waits for news of one node and puts each `watch` reply, or the error that ended it, into a queue.

    Parameters
    ----------
    node
        Whom to watch.
    stream
        Which stream.
    after
        Last step that is known already.
    news
        Gets ``(node name, reply or error)``.
    """

    def __init__(self, node: NodeAddress, stream: str, after: int, news: "queue.SimpleQueue[tuple[str, Any]]") -> None:
        super().__init__(name=f"watch-{node.name}", daemon=True)
        self._client = NodeClient(node)
        self._stream, self._after, self._news = stream, after, news
        self._stopped = threading.Event()

    def run(self) -> None:
        """Watch until `stop`."""
        change, after = -1, self._after
        try:
            while not self._stopped.is_set():
                reply = self._client.request(
                    "watch", POLL_S, stream=self._stream, after=after, change=change, limit=STEPS_PER_REPLY
                )
                # A full reply may have left steps out: ask again at once.
                change = -1 if len(reply["steps"]) == STEPS_PER_REPLY else reply["change"]
                after = max([after, *(step["step"] for step in reply["steps"])])
                self._news.put((self._client.node.name, reply))
        except BbflowError as error:
            if not self._stopped.is_set():
                self._news.put((self._client.node.name, error))
        finally:
            self._client.close()

    def stop(self) -> None:
        """End soon; the thread is a daemon and need not be joined."""
        self._stopped.set()
        self._client.interrupt()
