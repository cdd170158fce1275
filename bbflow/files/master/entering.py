"""Clients come, come back, and go: their sessions."""

import errno
import os
import secrets
from collections.abc import Callable

from bbflow.errors import ProtocolError
from bbflow.files.commands import NodesNotice
from bbflow.files.inodes import Inode
from bbflow.files.master.awaited_events import GraceEvent
from bbflow.files.master.core import AnyCall, Core
from bbflow.files.master.fleet import Fleet
from bbflow.files.master.once import Once
from bbflow.files.master.range_locks import Locks
from bbflow.files.master.records import SessionEndRecord, SessionRecord
from bbflow.files.master.sessions import Changes, Session
from bbflow.files.replies import FileRefusal, FileReply, Given, SessionOptions, SessionReply
from bbflow.files.requests import JoinSessionRequest, SessionRequest

HAS_ENDED = FileRefusal(errno=errno.ESTALE, error="the session has ended", seq=0)


class Entering:
    """The requests that begin and end sessions.

    Parameters
    ----------
    core
        The master's state.
    resume, close
        What is done with the files that a session has open, when it comes back, and when it ends (`FileOpening`).
    locks, fleet, once
        Its other parts.
    ended
        Called with each session that has ended, and what others must forget then.
    """

    def __init__(
        self,
        core: Core,
        resume: Callable[[Session, SessionRequest, list[Given]], list[int]],
        close: Callable[[Session], list[Inode]],
        locks: Locks,
        fleet: Fleet,
        once: Once,
        ended: Callable[[Session, Changes], None],
    ) -> None:
        self._core, self._resume, self._close, self._locks = core, resume, close, locks
        self._fleet, self._once, self._ended = fleet, once, ended

    def join(self, peer: int, asked: JoinSessionRequest) -> None:
        """Add a connection to a session."""
        core = self._core
        session = core.sessions.by_name.get(asked.session)
        if session is None:
            core.send(peer, HAS_ENDED)
            return
        core.sessions.connect(session, peer)
        if asked.listen:
            # What it was told over a connection before may be lost, so its client has forgotten all that it had kept.
            core.sessions.drop_kept(session)
            session.listener = peer
        core.send(peer, FileReply(seq=core.seq))
        if asked.listen:  # some may have come since the session began
            core.send(peer, NodesNotice(nodes=self._fleet.told()))

    def enter(self, peer: int, asked: SessionRequest, uid: int | None) -> None:
        """Begin a session on a connection, or resume it.

        Parameters
        ----------
        peer
            The connection.
        asked
            Its request.
        uid
            The user at its other end, if the system tells.

        Raises
        ------
        ProtocolError
            If it says that it is another user.
        """
        core = self._core
        session = self._session(asked, uid)
        if session is None:
            core.send(peer, HAS_ENDED)
            return
        core.sessions.connect(session, peer)
        session.host = asked.host
        handles = self._resume(session, asked, self._once.in_flight(session, asked.slots))
        options = core.options
        reply = SessionReply(
            session=session.name,
            lease_s=options.lease_s,
            root=core.image.attr(core.image.root),
            nodes=self._fleet.told(),
            handles=tuple(handles),
            seq=core.seq,
            options=SessionOptions(
                piece_bytes=options.piece_bytes,
                replicas=options.replicas,
                wait_s=options.wait_s,
                storage=options.storage,
            ),
        )
        core.send(peer, reply)
        core.happened(GraceEvent())

    def _session(self, asked: SessionRequest, uid: int | None) -> Session | None:
        """Return the session that a client begins or comes back to; None if that has ended."""
        core = self._core
        if asked.resume:
            session = core.sessions.by_name.get(asked.resume)
            if session is not None:  # a master before this one knew the groups, and didn't store them
                core.commit(SessionRecord(session.name, session.who.uid, session.who.gid, asked.groups))
            return session
        if uid not in (None, 0, asked.uid):
            raise ProtocolError(f"user {uid} says it is user {asked.uid}")
        # From elsewhere nothing but the key tells who it is: that of a user's contact file is no proof of root.
        if uid is None and asked.uid == 0 and os.getuid() != 0:
            raise ProtocolError("a client over TCP says that it is root: mount on this host, or as the nodes' user")
        name = secrets.token_hex(16)
        core.commit(SessionRecord(name, asked.uid, asked.gid, asked.groups))
        return core.sessions.by_name[name]

    def bye(self, call: AnyCall) -> FileReply:
        """End the session of a call."""
        self.end(call.session)
        return FileReply()

    def end(self, session: Session) -> None:
        """End a session: what it had open is closed, what it never committed goes."""
        core, changes = self._core, Changes()
        for inode in self._close(session):
            self.unname(inode, changes)
        self._locks.release_all(session)
        core.commit(SessionEndRecord(session.name))
        self._ended(session, changes)

    def unname(self, inode: Inode, changes: Changes) -> None:
        """Take the name of a file away that was never committed."""
        core = self._core
        changes.names.append((inode.parent, inode.name, inode.ino))
        changes.add(directories=(inode.parent,))
        core.commit(*core.without_name(inode))
