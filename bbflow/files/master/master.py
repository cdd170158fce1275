"""A master's decisions: messages of clients and IOnodes go in, messages come out; no socket and no clock of its own."""

import errno
import traceback
from collections import deque
from collections.abc import Callable, Mapping
from functools import lru_cache

from msgspec import Raw, Struct
from msgspec.structs import replace

from bbflow.errors import ProtocolError
from bbflow.files.commands import CapacityNotice, CommandAnswer, JoinIonode, NodesNotice
from bbflow.files.inodes import DIRECTORY
from bbflow.files.master.awaited_events import Event, GraceEvent, RoomEvent, StorageEvent
from bbflow.files.master.committing import Committing
from bbflow.files.master.core import Answers, AnyCall, Blocked, Call, Core, CutOff, Deferred, Unfinished
from bbflow.files.master.database import Database
from bbflow.files.master.entering import Entering
from bbflow.files.master.filling import Filling
from bbflow.files.master.fleet import Fleet, Shrinking
from bbflow.files.master.name_checks import made, touched
from bbflow.files.master.naming import Naming
from bbflow.files.master.once import Once
from bbflow.files.master.opening import FileOpening
from bbflow.files.master.overview import Overview
from bbflow.files.master.permissions import SYSTEM, Credentials
from bbflow.files.master.prefetching import Prefetching
from bbflow.files.master.range_locks import Locks
from bbflow.files.master.records import ForgetRecord, InodeRecord
from bbflow.files.master.replicas import Replicas
from bbflow.files.master.scanning import Scanning
from bbflow.files.master.sessions import Changes, Session
from bbflow.files.master.telling import Tellings
from bbflow.files.master.writeback import WriteBack
from bbflow.files.names import is_within, split_path
from bbflow.files.options import Options
from bbflow.files.replies import FileRefusal, FileReply, NodesReply
from bbflow.files.requests import (
    Asked,
    ByeRequest,
    ForgotMessage,
    GrantRequest,
    Heard,
    JoinSessionRequest,
    NodesRequest,
    OpenFileRequest,
    PingRequest,
    SessionRequest,
)

GIVING = (OpenFileRequest, GrantRequest)
"""Requests that change nothing which others see, and whose reply gives something."""


class Master:
    """One master.

    Parameters
    ----------
    database
        What it stores.
    options
        How it keeps files.
    clock
        Gives seconds since the epoch.
    """

    def __init__(self, database: Database, options: Options, clock: Callable[[], float]) -> None:
        core = self.core = Core(database, options, clock)
        """The namespace, sessions and settings that all its parts work on."""
        self._write_back = WriteBack(core)
        self._filling = Filling(core, self._write_back.hurry)
        self._scanning = Scanning(core)
        self._replicas = Replicas(core, self._filling.let_go)
        self._shrinking = Shrinking(core, self._filling.make_room)
        self._fleet = Fleet(core, self._replicas, self._shrinking)
        committing = Committing(core, self._write_back, self._replicas)
        self._opening = FileOpening(core, self._filling, self._scanning, committing)
        naming = Naming(core, self._opening.truncated, self._scanning, self._write_back)
        self._prefetching = Prefetching(core, self._filling)
        overview = self._overview = Overview(
            core, self._filling, self._prefetching, self._scanning, self._write_back, self._replicas
        )
        locks = self._locks = Locks(core)
        self._once = Once(core, self._opening.undo)
        self._entering = Entering(
            core, self._opening.resume, self._opening.end, locks, self._fleet, self._once, self._ended
        )
        self._requests: Answers = {
            **naming.requests,
            **self._opening.requests,
            **overview.requests,
            **locks.requests,
            PingRequest: lambda call: FileReply(),
            ByeRequest: self._entering.bye,
            NodesRequest: lambda call: NodesReply(nodes=self._fleet.told()),
        }
        self._changes: Answers = {**naming.changes, **self._opening.changes, **committing.changes}
        self._waits: dict[Event, deque[AnyCall]] = {}
        self._tellings = Tellings(core)
        self._is_due = True
        self._restore()

    def _restore(self) -> None:
        """Take in what a master before this one knew; its clients have a lease to come back."""
        core = self.core
        core.sessions.are_lost(core.clock())
        self._locks.restore()
        for handle in core.database.writers():
            self._opening.restore(handle)
        self._grace_until_s = core.clock() + core.options.lease_s if core.sessions.by_name else 0.0
        for inode in list(core.image.inodes.values()):
            # Its creator never committed, and doesn't write any more: the name goes, as at the end of a session.
            if inode.parent and inode.expected and core.image.writer(inode.ino) is None:
                self._entering.unname(inode, Changes())

    @property
    def is_over(self) -> bool:
        """Whether a client has asked it and its IOnodes to end."""
        return self._overview.is_over

    def graft(self, masters: Mapping[str, int]) -> None:
        """Make a directory for each subtree below this one that another master serves.

        Parameters
        ----------
        masters
            Numbers of all masters, by subtree.
        """
        own = self.core.options.subtree
        below = [tree for tree in masters if tree != own and is_within(tree, own)]
        for tree in below:
            if not any(other != tree and is_within(tree, other) for other in below):
                self._graft(tree[len(own.rstrip("/")) :], masters[tree])

    def _graft(self, path: str, number: int) -> None:
        core, inode = self.core, self.core.image.root
        for name in split_path(path):
            child = core.image.child(inode.ino, name)
            if child is None:
                now_ns = core.now_ns()
                child = made(core.image, inode, name, DIRECTORY, 0o755, SYSTEM, now_ns, core.options.storage)
                core.commit(InodeRecord(child), InodeRecord(touched(inode, now_ns)))
            inode = child
        core.commit(InodeRecord(replace(inode, master=number)))

    # What comes in.

    def handle(self, peer: int, heard: Heard, uid: int | None = None) -> None:
        """Take a message in.

        Parameters
        ----------
        peer
            Who sent it.
        heard
            What.
        uid
            The user of a peer on the own host, if the system tells.

        Raises
        ------
        ProtocolError
            If the message is not allowed: the peer must be cut off.
        """
        match heard:
            case SessionRequest():
                self._entering.enter(peer, heard, uid)
            case JoinSessionRequest():
                self._entering.join(peer, heard)
            case JoinIonode():
                self._hear(peer, heard)
            case CommandAnswer():
                self._answered(peer, heard)
            case CapacityNotice():
                self._may_hold(peer, heard)
            case ForgotMessage():
                self._tellings.forgot(peer, heard.seq)
            case _:
                self._ask(peer, heard)
        self._settle()

    def _may_hold(self, peer: int, told: CapacityNotice) -> None:
        if peer not in self._fleet.by_peer:
            raise ProtocolError("the capacity of what isn't an IOnode")
        self._shrinking.may_hold(self._fleet.by_peer[peer], told.bytes)

    def _answered(self, peer: int, answer: CommandAnswer) -> None:
        if peer not in self._fleet.by_peer:
            raise ProtocolError("an answer of what isn't an IOnode")
        self.core.answered(answer)

    def _ask(self, peer: int, asked: Asked) -> None:
        session = self.core.sessions.by_peer.get(peer)
        if session is None:
            raise ProtocolError(f"{type(asked).__name__} of a connection without a session")
        call: AnyCall = Call(peer, session, asked, _who(session, asked), began_s=self.core.clock())
        is_write = isinstance(asked, OpenFileRequest) and asked.write
        if self.core.options.read_only and (type(asked) in self._changes or is_write):
            self._answer(call, FileRefusal(errno=errno.EROFS, error="these files can only be read"))
        elif not self._once.is_running(call):
            self._try(call)

    def _try(self, call: AnyCall) -> None:
        """Decide a request, which may take several decisions."""
        while not self._decide(call):
            pass

    def _decide(self, call: AnyCall) -> bool:
        """Decide a request: what it changes counts when it need not wait any more, and not before.

        Returns
        -------
        bool
            Whether that was all; else the next part is to be decided.
        """
        kind = type(call.asked)
        core = self.core
        try:
            if kind in self._changes:
                self._check_grace(call)
                core.next_seq()
            # Sent again since its reply was lost: it counts once, however often it comes.
            if (had := self._once.reply(call)) is not None:
                self._say(call, had)
                return True
            reply = (self._changes.get(kind) or self._requests[kind])(call)
            core.count(call)
        except Blocked as blocked:
            # It is decided again from its beginning when woken: others may change meanwhile what it has looked at.
            call.undecide()
            self._wait(call, blocked)
            return True
        except Deferred:
            core.count(call)
            return True
        except Unfinished:
            core.count(call)
            return False
        except OSError as error:
            call.undecide()
            reply = FileRefusal(errno=error.errno or errno.EIO, error=error.strerror or str(error))
        except ProtocolError:
            self._once.over(call)
            raise
        except Exception:  # a mistake of this program's: it costs one request, not all that is open
            traceback.print_exc()
            call.undecide()
            reply = FileRefusal(error=f"the master failed at {kind.__name__}: see its log")
        if reply is not None:
            self._answer(call, reply)
        else:
            self._once.over(call)
        return True

    def _check_grace(self, call: AnyCall) -> None:
        """Change nothing while clients of the master before this one may keep what it let them keep."""
        if not self._grace_until_s:
            return
        now_s = self.core.clock()
        back = all(session.lost_s is None for session in self.core.sessions.by_name.values())
        if back or now_s >= self._grace_until_s:
            self._grace_until_s = 0.0
            self.core.happened(GraceEvent())
            return
        call.wait(GraceEvent(), OSError(errno.EAGAIN, "the master was just started"), -1.0, now_s)

    def _wait(self, call: AnyCall, blocked: Blocked) -> None:
        call.blocked = blocked
        call.deadline_s = call.began_s + blocked.timeout_s if blocked.timeout_s >= 0 else float("inf")
        self._waits.setdefault(blocked.event, deque()).append(call)

    # What goes out.

    def _answer(self, call: AnyCall, reply: FileReply) -> None:
        told = reply if isinstance(reply.seq, int) else replace(reply, seq=self.core.seq)
        is_change = type(call.asked) in self._changes
        if is_change or isinstance(call.asked, GIVING):
            # It is stored with the change itself: after a crash a client that asks again must not have it done twice.
            self._once.keep(call, told, stores=is_change)
        changes, call.told = call.told, None
        if changes is None:
            self._say(call, told)
        else:
            self._tellings.tell(call.session, changes, lambda: self._say(call, told))

    def _say(self, call: AnyCall, reply: FileReply | Raw) -> None:
        self._once.over(call)
        self.core.send(call.peer, reply)

    def take_out(self) -> list[tuple[int, Struct | Raw]]:
        """Store everything that has changed (or later, if no one waits for it); return the messages that may go now.

        Raises
        ------
        CapacityError
            If there is no room for them: messages and changes are kept for the next time.
        """
        if not self.core.has_out and not self._is_due:
            return []
        # Before any message goes: what others are told must be so after a crash, too.
        self.core.database.commit()
        self._is_due = False
        self._tellings.went_out()
        return self.core.take_out()

    def _settle(self) -> None:
        """Try again what waited for something that has happened since."""
        core = self.core
        while core.is_unsettled:
            for call, reply in core.take_finished():
                self._answer(call, reply)
            events = core.take_events()
            self._write_back.take(events)
            self._shrinking.take(events)
            self._prefetching.take(events)
            for event in events:
                if event in self._waits:
                    self._wake(event)
        self._tell_found_out()

    def _wake(self, event: Event) -> None:
        calls = self._waits.pop(event)
        while calls:
            call = calls.popleft()
            if call.peer not in self.core.sessions.by_peer:
                self._once.over(call)
                continue
            self._try(call)
            is_room = isinstance(event, RoomEvent)
            if is_room and call.blocked is not None and call in self._waits.get(event, ()):
                self._waits[event].extend(calls)  # who came first is served first
                return

    def _tell_found_out(self) -> None:
        for part in (self._scanning, self._fleet, self._write_back):
            if part.changes:
                changes, part.changes = part.changes, Changes()
                self._tellings.tell(None, changes, lambda: None)

    def _hear(self, peer: int, told: JoinIonode) -> None:
        changes = self._fleet.hear(peer, told)
        if changes is None:
            return
        self._write_back.inherited.joined(self._fleet.by_peer[peer].name, told.busy)
        self._tellings.tell(None, changes, lambda: None)
        self._tell_nodes()

    def _ended(self, session: Session, changes: Changes) -> None:
        """End all waits for a session that has ended, and tell the others what went with it."""
        self._tellings.let_go(session.name)
        self._tellings.tell(None, changes, lambda: None)

    def _tell_nodes(self) -> None:
        listeners = [session.listener for session in self.core.sessions.by_name.values()]
        for peer in [*self._fleet.by_peer, *listeners]:
            if peer is not None:
                self.core.send(peer, NodesNotice(nodes=self._fleet.told()))

    # Time and endings.

    def disconnect(self, peer: int) -> None:
        """Take in that a connection is gone."""
        if self._fleet.leave(peer):
            self._tell_nodes()
        session = self.core.sessions.by_peer.get(peer)
        was_listening = session is not None and session.listener == peer
        self.core.sessions.disconnect(peer, self.core.clock())
        if session is not None and was_listening:  # it keeps nothing once it sees that; so it needs not be asked
            self._tellings.let_go(session.name)
        self._settle()

    def expire(self) -> None:
        """Do what is due by the clock."""
        now_s, core = self.core.clock(), self.core
        self._is_due = True
        core.database.store_touched()
        for session in list(core.sessions.by_name.values()):
            if session.lost_s is not None and now_s >= session.lost_s + core.options.lease_s:
                self._entering.end(session)
        for name in self._tellings.late():
            self._cut_off(name)
        self._fleet.look()
        self._tellings.tell(None, self._fleet.give_up(), lambda: None)
        self._tellings.tell(None, self._replicas.mend(), lambda: None)
        self._expire_waits(now_s)
        if self._grace_until_s and now_s >= self._grace_until_s:
            core.happened(GraceEvent())
        deadline_s = self._write_back.next_deadline_s()
        if deadline_s is not None and now_s >= deadline_s:
            core.happened(StorageEvent())
        # A client that isn't back yet may have one of them open.
        for ino in list(core.image.orphans) if not self._grace_until_s else ():
            if not core.image.is_open(ino):
                core.commit(ForgetRecord(ino))
        self._settle()

    def _cut_off(self, name: str) -> None:
        session = self.core.sessions.by_name.get(name)
        if session is not None:
            for peer in session.peers:
                self.core.send(peer, CutOff())
            self._entering.end(session)
        self._tellings.let_go(name)

    def _expire_waits(self, now_s: float) -> None:
        for event, calls in list(self._waits.items()):
            due = [call for call in calls if call.deadline_s <= now_s]
            if due:
                self._waits[event] = deque(call for call in calls if call.deadline_s > now_s)
                if not self._waits[event]:
                    del self._waits[event]
                for call in due:
                    if call.peer in self.core.sessions.by_peer:
                        self._try(call)
                    else:
                        self._once.over(call)


def _who(session: Session, asked: Asked) -> Credentials:
    """Return the user that a request is for: only root's sessions speak for others."""
    if session.who.uid != 0 or asked.uid is None:
        return session.who
    return _credentials(asked.uid, session.who.gid if asked.gid is None else asked.gid, asked.groups)


@lru_cache(maxsize=256)
def _credentials(uid: int, gid: int, groups: tuple[int, ...]) -> Credentials:
    return Credentials(uid, gid, frozenset(groups))
