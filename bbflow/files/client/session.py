"""A session with one master from Python: requests in their order, and IOnodes to read from and write to."""

import errno
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TypeVar

from msgspec.structs import replace

from bbflow.errors import BbflowError, NodeError
from bbflow.files.client.calling import Caller, Gone, IonodeCaller, UnansweredError, address_of
from bbflow.files.client.opened import OpenFile
from bbflow.files.client.own_pieces import hold_pieces
from bbflow.files.commands import IonodeTold
from bbflow.files.replies import CommitReply, FileReply, GrantReply, NodesReply, OpenToWriteReply, SessionReply
from bbflow.files.requests import ByeRequest, ClientRequest, GrantRequest, NodesRequest, SessionRequest
from bbflow.host.held import HeldDirectory
from bbflow.net.connection import ReplyT
from bbflow.net.contact import MasterAddress, NodeAddress

T = TypeVar("T")

COME_BACK_S = 30.0
"""How long a master that is away is tried again."""
PAUSE_S = 0.05
ATTEMPTS = 4
"""How often a request is sent whose reply the master's end cut off, and an IOnode is tried that was lost."""
SETTLE_S = 0.5
"""How long an IOnode is given to come back, each time."""

GIVING = (OpenToWriteReply, CommitReply, GrantReply)
"""Replies that room comes along with."""


class ClientSession:
    """A session with one master; it comes back after the master was started again.

    Parameters
    ----------
    master
        Where it is.
    find
        Gives its newest address.
    """

    def __init__(self, master: MasterAddress, find: Callable[[str], MasterAddress]) -> None:
        self.subtree, self._find = master.subtree, find
        self.key = master.address.key
        self._lock = threading.RLock()
        self._name = ""
        self.open_files: dict[int, OpenFile] = {}
        """What is open, by handle."""
        self.room: dict[str, int] = {}
        """Bytes that may still be written, by IOnode."""
        self._nodes: dict[str, IonodeTold] = {}
        self._nodes_callers: dict[str, list[IonodeCaller]] = {}
        # By node: connections whose last request may still be carried out, though no one waits for it.
        self._left: dict[str, set[str]] = {}
        self._pieces: dict[tuple[str, str], HeldDirectory] = {}
        self._held: list[HeldDirectory] = []
        self._number, self._is_asking = 0, False
        self._caller = self._enter(master)

    def _enter(self, master: MasterAddress) -> Caller:
        if master.address.key != self.key:
            # the one key is not lent to addresses that someone wrote with another one
            raise NodeError(f"the contact file has another key than when the session with {self.subtree!r} began")
        caller = Caller(master.address)
        try:
            told = self._begin(caller)
        except BaseException:
            caller.close()
            raise
        # What the master doesn't know any more went with a session that had ended: such files may not commit.
        lost = {number for number, _ in self._open()} - set(told.handles)
        for number in lost:
            self.open_files.pop(number).lose()
        self._name, self.root, self.options = told.session, told.root.ino, told.options
        self._place = master
        self._take_nodes(told.nodes)
        return caller

    def _begin(self, caller: Caller) -> SessionReply:
        """Come back to the session, or begin another one if that has ended, or there was none."""
        asked = SessionRequest(
            host=socket.gethostname(), pid=os.getpid(), uid=os.getuid(), gid=os.getgid(), groups=tuple(os.getgroups())
        )
        if self._name:
            handles = tuple((number, file.ino, file.read_version, file.writes) for number, file in self._open())
            slots = ((0, self._number),) if self._is_asking else ()
            again = replace(asked, resume=self._name, handles=handles, room=self._all_room(), slots=slots)
            try:
                return caller.call(again, SessionReply)
            except OSError as error:
                if error.errno != errno.ESTALE:
                    raise
            self.room.clear()
        return caller.call(asked, SessionReply)

    def _all_room(self) -> dict[str, int]:
        """Return the room that this session has, also what is written and not committed."""
        room = Counter(self.room)
        for _, file in self._open():
            room.update(file.charged())
        return dict(room)

    def _open(self) -> list[tuple[int, OpenFile]]:
        return list(self.open_files.items())

    def _take_nodes(self, nodes: Iterable[IonodeTold]) -> None:
        self._nodes = {told.name: told for told in nodes}

    def call(self, asked: ClientRequest, kind: type[ReplyT]) -> ReplyT:
        """Send a request and return its reply, as `Caller.call` does; a master that is away is waited for.

        Raises
        ------
        OSError
            If it is refused; EIO if the master doesn't come back.
        """
        with self._lock:
            # One request at a time: the session has one slot, for which the master keeps one reply.
            self._number, self._is_asking = self._number + 1, True
            try:
                reply = self._ask(replace(asked, slot=0, number=self._number), kind)
            finally:
                self._is_asking = False
            if isinstance(reply, GIVING):
                self._take_granted(reply.granted)
            return reply

    def _ask(self, asked: ClientRequest, kind: type[ReplyT]) -> ReplyT:
        """Send a request, the same again where the connection breaks: it counts once."""
        gone: Gone | None = None
        for _ in range(ATTEMPTS):
            try:
                return self._caller.call(asked, kind)
            except Gone as failure:
                gone = failure
                self._come_back(gone, time.monotonic() + COME_BACK_S)
            except OSError:
                raise
            except BaseException:  # interrupted: the next request must not take the reply that is still to come
                self._caller.close()
                raise
        what = f"the master of {self.subtree!r} hangs up at each {type(asked).__name__}"
        raise UnansweredError(errno.EIO, f"{what}: see its log ({gone})")

    def tell(self, asked: ClientRequest) -> None:
        """Send a request that has no reply; a master that is away learns of it when the session comes back."""
        with self._lock:
            try:
                self._caller.send(asked)
            except Gone as gone:
                self._come_back(gone, time.monotonic() + COME_BACK_S)
                self._caller.send(asked)

    def _take_granted(self, granted: Mapping[str, int]) -> None:
        for node, size in granted.items():
            self.room[node] = self.room.get(node, 0) + size

    def _come_back(self, gone: Gone, deadline_s: float) -> None:
        self._caller.close()
        while True:
            try:
                self._caller = self._enter(self._newest_place())
                return
            except NodeError:
                if time.monotonic() > deadline_s:
                    what = f"the master of {self.subtree!r} doesn't come back: {gone}"
                    raise UnansweredError(errno.EIO, what) from None
                time.sleep(PAUSE_S)

    def _newest_place(self) -> MasterAddress:
        """Return where the contact file says that the master is; where it was, while that says nothing."""
        try:
            return self._find(self.subtree)
        except BbflowError:
            return self._place

    def node(self, name: str) -> IonodeTold:
        """Return where an IOnode is.

        Raises
        ------
        OSError
            EHOSTDOWN if it is away.
        """
        told = self._nodes.get(name)
        if told is None or not told.up:
            self._take_nodes(self.call(NodesRequest(), NodesReply).nodes)
            told = self._nodes.get(name)
        if told is None or not told.up:
            raise OSError(errno.EHOSTDOWN, f"IOnode {name} is away")
        return told

    def pieces(self, name: str) -> HeldDirectory | None:
        """Return the directory of an IOnode's pieces, if they may be opened here; None if it must be asked.

        Raises
        ------
        OSError
            EHOSTDOWN if it is away.
        """
        told = self.node(name)
        place = (told.directory, told.tcp)
        with self._lock:
            held = self._pieces.get(place)
            if held is None or held.is_removed:
                held = hold_pieces(told, self.key)
                if held is not None:
                    self._held.append(held)  # one that is removed stays open: other threads may be about to use it
                    self._pieces[place] = held
            return held

    def on_node(self, name: str, action: Callable[[IonodeCaller], T]) -> T:
        """Do something with a connection to an IOnode, which no other thread uses meanwhile.

        It is done again, from its begin, if a connection has broken while it was idle.

        Raises
        ------
        OSError
            EHOSTDOWN if it is away, and what the action raises.
        """
        while True:
            caller, is_fresh = self._borrow(name)
            try:
                result = action(caller)
            except Gone as gone:
                self._leave(name, caller)
                if is_fresh:
                    raise OSError(errno.EHOSTDOWN, str(gone)) from None
            except OSError:
                self._give_back(name, caller)
                raise
            except BaseException:  # interrupted: its reply is still to come
                self._leave(name, caller)
                raise
            else:
                self._give_back(name, caller)
                return result

    def settle(self, name: str) -> None:
        """Return once nothing is changed on an IOnode any more by requests that no one waits for.

        Raises
        ------
        OSError
            EHOSTDOWN if it is away, so that no one knows.
        """
        for attempt in range(ATTEMPTS):
            if not self._left.get(name):
                return
            try:
                self.on_node(name, lambda _: None)
            except OSError:
                if attempt == ATTEMPTS - 1:
                    raise
                time.sleep(SETTLE_S)

    def _leave(self, name: str, caller: IonodeCaller) -> None:
        """Never use a connection again; whoever next opens one to its IOnode says so there first."""
        caller.close()
        with self._lock:
            self._left.setdefault(name, set()).add(caller.name)
            for idle in self._nodes_callers.pop(name, []):
                idle.close()

    def _borrow(self, name: str) -> tuple[IonodeCaller, bool]:
        """Return a connection, and whether it is a new one."""
        with self._lock:
            idle = self._nodes_callers.setdefault(name, [])
            if idle:
                return idle.pop(), False
            left = frozenset(self._left.get(name, ()))
        try:
            caller = _begun(address_of(self.node(name), self.key), left)
        except NodeError as error:
            # It may be back at another address: the next look asks the master.
            self._nodes.pop(name, None)
            raise OSError(errno.EHOSTDOWN, str(error)) from None
        with self._lock:
            self._left.get(name, set()).difference_update(left)
        return caller, True

    def _give_back(self, name: str, caller: IonodeCaller) -> None:
        with self._lock:
            if self._left.get(name):
                caller.close()
            else:
                self._nodes_callers.setdefault(name, []).append(caller)

    def take_room(self, node: str, size: int, wish: int) -> None:
        """Take room for some bytes on an IOnode, and ask for more at once if there isn't any.

        Parameters
        ----------
        node
            Which.
        size
            Bytes that are written now.
        wish
            Bytes that are asked for if there is plenty, so that the next ones need no request.

        Raises
        ------
        OSError
            ENOSPC.
        """
        with self._lock:
            while self.room.get(node, 0) < size:
                self.call(GrantRequest(node=node, bytes=size - self.room.get(node, 0), wish=wish), GrantReply)
            self.room[node] -= size

    def return_room(self, node: str, size: int) -> None:
        """Take back room for bytes that were not written after all."""
        with self._lock:
            self.room[node] = self.room.get(node, 0) + size

    def surplus(self, keep: int) -> dict[str, int]:
        """Return the room above some bytes, which is no longer this session's."""
        with self._lock:
            given = {node: size - keep for node, size in self.room.items() if size > keep}
            for node, size in given.items():
                self.room[node] -= size
            return given

    def close(self) -> None:
        """End the session."""
        with self._lock:
            for _, file in self._open():
                # First of all, so that no other thread commits through a session that is over.
                file.lose()
            with suppress(Gone, OSError):  # it ends by itself
                self._caller.call(ByeRequest(), FileReply)
            self._caller.close()
            for callers in self._nodes_callers.values():
                for caller in callers:
                    caller.close()
            self._pieces.clear()
            while self._held:
                self._held.pop().close()


def _begun(address: NodeAddress, without: Iterable[str]) -> IonodeCaller:
    """Return a connection to an IOnode that does nothing for these others any more."""
    caller = IonodeCaller(address)
    try:
        caller.begin(without)
    except BaseException:
        caller.close()
        raise
    return caller
