"""Requests count once, however often they are sent: the last reply of each slot of a session is kept until its next."""

from collections.abc import Callable, Iterable

from msgspec import Raw

from bbflow.files.master.core import AnyCall, Core
from bbflow.files.master.records import GivenRecord, ReplyRecord
from bbflow.files.master.sessions import ReplySlot, Session
from bbflow.files.replies import FileRefusal, FileReply, Given, parse_given
from bbflow.net.frames import pack


class Once:
    """The replies of all sessions that may be asked for again.

    Parameters
    ----------
    core
        The master's state.
    undo
        Lets go of what an untaken reply gave.
    """

    def __init__(self, core: Core, undo: Callable[[Session, Given], None]) -> None:
        self._core, self._undo = core, undo

    def is_running(self, call: AnyCall) -> bool:
        """Whether a request came before and has no reply yet; that goes to the new connection then."""
        asked, slots = call.asked, call.session.slots
        if asked.slot is None:
            return False
        index, number = asked.slot, asked.number
        slot = slots.get(index)
        if slot is None or slot.number != number:
            # Its client had given up the request before, and can't know what that has opened, or was granted.
            if slot is not None and slot.reply and asked.abandoned:
                self._undo(call.session, parse_given(slot.reply))
            slots[index] = ReplySlot(number, call)
            return False
        if slot.call is not None:
            slot.call.peer = call.peer
            return True
        slot.call = call
        return False

    def reply(self, call: AnyCall) -> Raw | None:
        """Return the reply that a request has had already, as it went out."""
        slot = self._slot(call)
        return None if slot is None or not slot.reply else Raw(slot.reply)

    def keep(self, call: AnyCall, reply: FileReply, *, stores: bool) -> None:
        """Keep a request's reply; with `stores` also for the next master."""
        # A refusal has changed nothing: who asks again may get a better answer.
        if call.asked.slot is None or isinstance(reply, FileRefusal):
            return
        slot, packed = self._slot(call), pack(reply)
        if slot is None:  # its client waits no longer
            self._undo(call.session, parse_given(packed))
        else:
            kind = ReplyRecord if stores else GivenRecord
            self._core.commit(kind(call.session.name, call.asked.slot, slot.number, packed))

    def over(self, call: AnyCall) -> None:
        """Record that a request was answered, or that nothing will come of it."""
        slot = self._slot(call)
        if slot is not None and call.asked.slot is not None:
            slot.call = None
            if not slot.reply:
                del call.session.slots[call.asked.slot]

    def in_flight(self, session: Session, slots: Iterable[tuple[int, int]]) -> list[Given]:
        """Return what those replies give that a client which comes back will ask for again.

        Parameters
        ----------
        session
            The client's.
        slots
            Slots and numbers of its requests without a reply.
        """
        found = [session.slots[index] for index, number in slots if _is(session.slots.get(index), number)]
        return [parse_given(slot.reply) for slot in found if slot.reply]

    def _slot(self, call: AnyCall) -> ReplySlot | None:
        if call.asked.slot is None:
            return None
        slot = call.session.slots.get(call.asked.slot)
        return slot if _is(slot, call.asked.number) else None


def _is(slot: ReplySlot | None, number: int) -> bool:
    return slot is not None and slot.number == number
