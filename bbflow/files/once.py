"""Requests count once, however often they are sent: the last reply of each slot of a session is kept until its next."""

from collections.abc import Callable, Iterable

import msgpack

from bbflow.files.core import AnyCall, Core
from bbflow.files.sessions import ReplySlot, Session
from bbflow.records import Message


class Once:
    """The replies of all sessions that may be asked for again.

    Parameters
    ----------
    core
        The master's state.
    undo
        Lets go of what a reply gave that nobody took.
    """

    def __init__(self, core: Core, undo: Callable[[Session, Message], None]) -> None:
        self._core, self._undo = core, undo

    def restore(self) -> None:
        """Take in what a master before this one has answered, once its sessions are known."""
        for name, slot, number, reply in self._core.database.replies():
            session = self._core.sessions.by_name.get(name)
            if session is not None:
                session.slots[slot] = ReplySlot(number, reply=msgpack.unpackb(reply))

    def is_under_way(self, call: AnyCall) -> bool:
        """Whether a request came before and has no reply yet; that goes to the new connection then."""
        asked, slots = call.asked, call.session.slots
        if asked.slot is None:
            return False
        place, number = asked.slot, asked.number
        slot = slots.get(place)
        if slot is None or slot.number != number:
            if slot is not None and slot.reply is not None and asked.abandoned:
                self._undo(call.session, slot.reply)
            slots[place] = ReplySlot(number, call)
            return False
        if slot.call is not None:
            slot.call.peer = call.peer
            return True
        slot.call = call
        return False

    def reply(self, call: AnyCall) -> Message | None:
        """Give the reply that a request has had already."""
        slot = self._slot(call)
        return None if slot is None else slot.reply

    def keep(self, call: AnyCall, reply: Message, *, stores: bool) -> None:
        """Keep a request's reply; with `stores` also for the next master."""
        if call.asked.slot is None or not reply.get("ok"):
            return
        slot = self._slot(call)
        if slot is None:  # its client waits no longer
            self._undo(call.session, reply)
        elif slot.reply is None:
            slot.reply = reply
            if stores:
                self._core.database.keep_reply(call.session.name, call.asked.slot, slot.number, msgpack.packb(reply))

    def over(self, call: AnyCall) -> None:
        """Take down that a request was answered, or that nothing will come of it."""
        slot = self._slot(call)
        if slot is not None and call.asked.slot is not None:
            slot.call = None
            if slot.reply is None:
                del call.session.slots[call.asked.slot]

    def in_flight(self, session: Session, slots: Iterable[tuple[int, int]]) -> list[Message]:
        """Give the replies that a client which comes back will ask for again.

        Parameters
        ----------
        session
            The client's.
        slots
            Slots and numbers of its requests without a reply.
        """
        found = [session.slots[place] for place, number in slots if _is(session.slots.get(place), number)]
        return [slot.reply for slot in found if slot.reply is not None]

    def _slot(self, call: AnyCall) -> ReplySlot | None:
        if call.asked.slot is None:
            return None
        slot = call.session.slots.get(call.asked.slot)
        return slot if _is(slot, call.asked.number) else None


def _is(slot: ReplySlot | None, number: int) -> bool:
    return slot is not None and slot.number == number
