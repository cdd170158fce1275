"""The masters behind a contact file, for a client in Python: a session with each, and which one a path belongs to.

A namespace of several masters is one here: a path goes to the master of the longest subtree that holds it.
"""

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from bbflow.errors import BbflowError, NodeError
from bbflow.files.client.session import ClientSession
from bbflow.files.names import is_within, split_path
from bbflow.files.requests import ClientRequest
from bbflow.host.closable import Closable
from bbflow.net.connection import ReplyT
from bbflow.net.contact import MasterAddress, read_masters

START_S = 5.0
"""How long a master that stands in the contact file and doesn't answer is tried."""
PAUSE_S = 0.05


class Masters(Closable):
    """The masters of a contact file; sessions begin as they are needed.

    Parameters
    ----------
    contact
        The contact file.

    Raises
    ------
    NodeError
        If there are no files behind it, or no master answers.
    """

    def __init__(self, contact: str | Path) -> None:
        self._contact = Path(contact)
        self._sessions: dict[str, ClientSession] = {}
        self._lock = threading.Lock()
        self._masters: dict[str, MasterAddress] = {}
        self._read_ns = 0
        self._read_masters()
        self._session("/")

    def _read_masters(self) -> None:
        """Learn which masters there are, whenever the contact file was rewritten."""
        changed_ns = 0
        with suppress(FileNotFoundError):
            # Each request looks: to read the file each time would cost more than the request.
            changed_ns = self._contact.stat().st_mtime_ns
            if changed_ns == self._read_ns:
                return
        self._masters = {master.subtree: master for master in read_masters(self._contact)}
        self._read_ns = changed_ns  # only now: what couldn't be read is read again

    def _find(self, subtree: str) -> MasterAddress:
        for master in read_masters(self._contact):
            if master.subtree == subtree:
                return master
        raise NodeError(f"there is no master of {subtree!r} in {self._contact}")

    def _session(self, subtree: str) -> ClientSession:
        with self._lock:
            if subtree not in self._sessions:
                self._sessions[subtree] = self._begin(subtree)
            return self._sessions[subtree]

    def _begin(self, subtree: str) -> ClientSession:
        """Begin a session with a master, which may just be starting."""
        deadline_s = time.monotonic() + START_S
        while True:
            try:
                return ClientSession(self._find(subtree), self._find)
            except NodeError:
                if time.monotonic() > deadline_s:
                    raise
            time.sleep(PAUSE_S)

    def session_of(self, path: str) -> tuple[ClientSession, str]:
        """Return the session that a path belongs to, and its rest below that session's root.

        Raises
        ------
        OSError
            If it isn't a path.
        """
        whole = "/" + "/".join(split_path(path))
        with suppress(BbflowError):  # who is known is used while others start again, or the contact file is damaged
            self._read_masters()
        subtree = max((s for s in self._masters if is_within(whole, s)), key=len, default="/")
        return self._session(subtree), whole[len(subtree) :].lstrip("/") if subtree != "/" else whole[1:]

    def masters(self) -> Iterable[ClientSession]:
        """Return a session with each master, that of ``/`` first."""
        return [self._session(subtree) for subtree in sorted(self._masters)]

    def each(self, path: str, kind: type[ReplyT], asked: Callable[[str], ClientRequest]) -> list[ReplyT]:
        """Ask each master that has a part of what is below a path; return their replies."""
        whole = "/" + "/".join(split_path(path))
        session, below = self.session_of(path)
        replies = [session.call(asked(below), kind)]
        inside = (s for s in sorted(self._masters) if s != whole and is_within(s, whole) and s != "/")
        replies += [self._session(subtree).call(asked(""), kind) for subtree in inside]
        return replies

    def close(self) -> None:
        """End all sessions."""
        with self._lock:
            for session in self._sessions.values():
                session.close()
            self._sessions.clear()
