"""Sessions are told what to forget before a change is answered, and who waits until they have heard."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from bbflow.files.master.core import Core
from bbflow.files.master.sessions import Changes, Session
from bbflow.files.replies import ForgetNotice


@dataclass(slots=True)
class Telling:
    """A change that sessions are told of, and who waits until they have heard."""

    waiting: set[str]
    """Sessions that have not answered."""
    then: Callable[[], None]
    """Sends the reply."""
    deadline_s: float = math.inf
    """When who hasn't answered is cut off."""


class Tellings:
    """The changes that some sessions have not answered yet.

    Parameters
    ----------
    core
        The master's state.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self._open: dict[int, Telling] = {}
        self._unsent: list[Telling] = []

    def tell(self, but: Session | None, changes: Changes, then: Callable[[], None]) -> None:
        """Tell other sessions what to forget, and continue once all have answered."""
        core = self._core
        heard = {}
        for name, told in core.sessions.forgetting(but, changes).items():
            listener = core.sessions.by_name[name].listener
            if listener is not None:
                heard[name] = (listener, told)
        if not heard:
            then()
            return
        seq = core.next_seq()
        for listener, told in heard.values():
            names, directories = tuple(told.names), tuple(told.directories)
            core.send(listener, ForgetNotice(seq=seq, inos=tuple(told.inos), names=names, directories=directories))
        self._open[seq] = Telling(set(heard), then)
        self._unsent.append(self._open[seq])

    def went_out(self) -> None:
        """Record that all messages are sent: from now on, who is told has a lease to answer."""
        for telling in self._unsent:
            telling.deadline_s = self._core.clock() + self._core.options.lease_s
        self._unsent.clear()

    def forgot(self, peer: int, seq: int) -> None:
        """Take in that a session has forgotten what it was told to."""
        session = self._core.sessions.by_peer.get(peer)
        if session is not None and seq in self._open:
            self._heard(seq, session.name)

    def let_go(self, session: str) -> None:
        """Wait for a session no longer: it keeps nothing now."""
        for seq in list(self._open):
            self._heard(seq, session)

    def late(self) -> list[str]:
        """Return the sessions that have not answered in time."""
        now_s = self._core.clock()
        return [name for telling in self._open.values() if now_s >= telling.deadline_s for name in telling.waiting]

    def _heard(self, seq: int, session: str) -> None:
        telling = self._open.get(seq)
        if telling is None:
            return
        telling.waiting.discard(session)
        if not telling.waiting:
            del self._open[seq]
            telling.then()
