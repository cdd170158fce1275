"""How an IOnode lets clients in: a thread for each, and few at a time that have not proved themselves."""

import socket
import threading
import time
import traceback
from collections.abc import Callable

from bbflow.errors import ProtocolError
from bbflow.files.ionode.conversation import Conversation
from bbflow.host.log import log
from bbflow.net.handshake import TIMEOUT_S

# Strangers that connect and stay silent may not take all threads.
MOST_UNPROVEN = 128
SHORTEST_S = 0.5
"""How long a peer may take to prove itself while half as many others are at it."""
PAUSE_S = 0.1
"""How long no client is let in where the system can't serve one, for want of descriptors, memory or threads."""


class Door:
    """One listener of an IOnode.

    Parameters
    ----------
    listener
        Where clients come.
    most
        How many may be inside at once; others wait outside.
    meet
        Lets one prove itself within some seconds, and gives it.
    serve
        Answers it until it leaves.
    """

    def __init__(
        self,
        listener: socket.socket,
        most: int,
        meet: Callable[[socket.socket, float], Conversation],
        serve: Callable[[Conversation], None],
    ) -> None:
        self._listener, self._meet, self._serve = listener, meet, serve
        self._changed = threading.Condition()
        self._inside, self._most = 0, most
        self._unproven, self._most_unproven = 0, min(max(most // 2, 1), MOST_UNPROVEN)

    def run(self) -> None:
        """Accept clients for as long as the listener is open."""
        while self._listener.fileno() >= 0:
            with self._changed:
                self._changed.wait_for(self._may_let_in)
            try:
                peer, _ = self._listener.accept()
            except OSError:
                time.sleep(PAUSE_S)
            else:
                self._begin(peer)

    def _may_let_in(self) -> bool:
        return self._inside < self._most and self._unproven < self._most_unproven

    def _begin(self, peer: socket.socket) -> None:
        self._count(inside=1, unproven=1)
        try:
            threading.Thread(target=self._let_in, args=(peer,), daemon=True).start()
        except RuntimeError:  # there are as many threads as may be
            self._count(inside=-1, unproven=-1)
            peer.close()
            time.sleep(PAUSE_S)

    def _let_in(self, peer: socket.socket) -> None:
        try:
            with self._proved(peer) as client:
                self._serve(client)
        except ProtocolError as error:
            log(f"bbflow files ionode: cut off a peer: {error}")
        except OSError:
            pass  # it is gone
        except Exception as error:  # a mistake of this program's: it costs one peer its connection
            log(f"bbflow files ionode: {''.join(traceback.format_exception(error))}")
        finally:
            self._count(inside=-1)

    def _proved(self, peer: socket.socket) -> Conversation:
        try:
            is_crowded = self._unproven > self._most_unproven // 2
            return self._meet(peer, SHORTEST_S if is_crowded else TIMEOUT_S)
        finally:
            self._count(unproven=-1)

    def _count(self, *, inside: int = 0, unproven: int = 0) -> None:
        with self._changed:
            self._inside += inside
            self._unproven += unproven
            self._changed.notify_all()
