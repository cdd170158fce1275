"""What an analysis asks of a node: to follow a stream, and to say what is safe with it."""

from dataclasses import dataclass, field

from msgspec import UNSET

from bbflow.errors import StreamError
from bbflow.landing.replies import AttachReply, DropReply, Shown, ShownStep
from bbflow.landing.requests import AttachRequest, DoneRequest, DropRequest, PlanRequest, WatchRequest
from bbflow.landing.waiting_requests import Answers
from bbflow.net.frames import pack
from bbflow.net.verdicts import DoneReply
from bbflow.reading.rank_plan import NO_PLAN, RankPlan, ToldPlan
from bbflow.store.entries import AttachRecord, DoneRecord, DropRecord, StatesRecord
from bbflow.store.node import NodeStore
from bbflow.store.ranks import Rank
from bbflow.store.streams import Stream
from bbflow.stream.layouts import Known
from bbflow.stream.records import Step

MAX_SHOWN_BYTES = 24 << 20
"""About the most that one reply brings, if it brings more than one step: a frame has its limit."""
FORM_BYTES = 128
"""About what one form takes."""


@dataclass(slots=True)
class Told:
    """What one peer has been told, and need not be told again."""

    layouts: Known = field(default_factory=Known)
    """Layouts."""
    parts: dict[int, int] = field(default_factory=dict)
    """Steps to which parts came later, and how many parts of each."""

    def lacks(self, stream: Stream, number: int) -> bool:
        """Whether a part of a step that was shown before has come since."""
        return number in stream.amended and self.parts.get(number) != stream.steps[number].ranks


def show(
    stream: Stream, asked: WatchRequest, change: int, told: Told, file: str = "", most_bytes: int = MAX_SHOWN_BYTES
) -> Shown:
    """Return the reply of a `watch`.

    Parameters
    ----------
    stream
        What is watched.
    asked
        What was asked.
    change
        The node's.
    told
        What this peer has been told.
    file
        The file that its ranks name, if that is known.
    most_bytes
        About how long the reply may be, if it brings more than one step.
    """
    newer = [step for number, step in stream.steps.items() if number > asked.after or told.lacks(stream, number)]
    shown: list[ShownStep] = []
    room = most_bytes
    for step in newer[: asked.limit]:
        room -= _size(step, told.layouts, extremes=asked.extremes)
        if room < 0 and shown:
            break
        shown.append(ShownStep.of(step, told.layouts, extremes=asked.extremes))
        if step.number in stream.amended:
            told.parts[step.number] = step.ranks
    more = len(shown) < len(newer)
    return Shown(
        change=change,
        status=stream.status,
        writers=stream.writers,
        local_writers=stream.local_writers,
        base=tuple(stream.base_of(asked.after).values()),
        attributes=tuple(stream.attributes.values()),
        steps=tuple(shown),
        more=more,
        last=max([asked.after, *(step.step for step in shown)]) if more else stream.last,
        discarded=tuple(sorted(stream.discarded)),
        moved=tuple((rank, node, stream.ranks[rank].first) for rank, node in stream.moved.items()),
        refused=tuple(stream.refused),
        file=file,
    )


def _size(step: Step, known: Known, *, extremes: bool) -> int:
    """Estimate how many bytes a step takes in a reply."""
    layout = step.layout
    forms = 0 if layout in known else FORM_BYTES * len(layout.forms)
    attributes = sum(len(pack(attribute)) for attribute in step.attributes)
    told = len(step.sources) + (len(step.extremes) if extremes else 0) + FORM_BYTES * len(step.values)
    return told + forms + attributes


def _states_of(rank: Rank, plan: RankPlan) -> int:
    """Return the bytes of the states of a rank's blocks, if they lie as in its last step."""
    layout = rank.layouts.find(rank.layout, UNSET)
    return layout.state_bytes({(name, type_): own for name, type_, own, *_ in plan.variables})


class Analysing:
    """The analyses of one node's streams.

    Parameters
    ----------
    store
        What the node keeps.
    """

    def __init__(self, store: NodeStore) -> None:
        self._store = store
        self._attached: dict[str, set[int]] = {}
        self.late: dict[str, int] = {}
        """By stream: steps that its analysis has left out for their times."""
        self._plans: dict[str, ToldPlan] = {}
        self.answers: Answers = {
            AttachRequest: self._attach,
            DoneRequest: self._done,
            PlanRequest: self._plan,
            DropRequest: self._drop,
        }
        """What answers at once."""

    def _attach(self, peer: int, asked: AttachRequest) -> AttachReply:
        name, owner = asked.stream, asked.owner
        known = self._store.streams.get(name)
        if known and known.owner != owner:
            self._check_owner(known, take_over=asked.take_over)
            self._attached.pop(name, None)
        epoch = known.epoch + 1 if known else 1
        self._store.record(AttachRecord(stream=name, consumers=asked.consumers, epoch=epoch, owner=owner))
        self._attached.setdefault(name, set()).add(peer)
        self._tell(name, None)  # another one may compute something else
        cursors = self._store.streams[name].consumers
        told = {key: (cursor.step, cursor.checkpoint) for key, cursor in cursors.items()}
        return AttachReply(epoch=epoch, cursors=told)

    def _check_owner(self, stream: Stream, *, take_over: bool) -> None:
        # An analysis that is gone before any rank has opened the stream has left nothing to take over.
        is_left = stream.status == "expected" and not self._attached.get(stream.name)
        if stream.owner and not take_over and not is_left:
            raise StreamError(
                f"stream {stream.name!r} belongs to the analysis into {stream.owner}: give yours another name (the "
                "engine's parameter Stream, and 'stream' in the configuration), or say --take-over"
            )

    def plan_of(self, stream: str) -> ToldPlan:
        """Return what ranks of a stream may fold."""
        return self._plans.get(stream, NO_PLAN)

    def _tell(self, name: str, plan: RankPlan | None) -> None:
        known, stream = self.plan_of(name), self._store.streams.get(name)
        if plan == known.plan:
            return
        ranks = stream.ranks.values() if stream else ()
        # The first step that no rank can have begun: of each step all ranks fold, or none.
        since = max((rank.settled + 2 for rank in ranks), default=0) if known.plan is None else known.since
        self._plans[name] = ToldPlan(known.number + 1, plan, since if plan else 0)
        if stream and plan:  # what a rank holds by an earlier one still needs its room when there is none any more
            states = tuple((number, _states_of(rank, plan)) for number, rank in stream.ranks.items())
            self._store.record(StatesRecord(stream=name, ends=plan.ends, ranks=states))

    def _plan(self, peer: int, asked: PlanRequest) -> DoneReply:
        name = self._held(asked).name
        self._attached.setdefault(name, set()).add(peer)  # an agent that was started again hears by this who is there
        self._tell(name, asked.plan)
        return DoneReply()

    def is_followed(self, stream: str) -> bool:
        """Whether an analysis that has attached to a stream is there now."""
        return bool(self._attached.get(stream))

    def disconnect(self, peer: int) -> None:
        """Take in that a peer's connection is gone."""
        for peers in self._attached.values():
            peers.discard(peer)

    def _done(self, peer: int, asked: DoneRequest) -> DoneReply:
        stream = self._held(asked)
        if asked.consumer not in stream.consumers:
            raise StreamError(f"{asked.consumer!r} is not attached to stream {stream.name!r}")
        self._store.record(
            DoneRecord(step=asked.step, stream=stream.name, consumer=asked.consumer, checkpoint=asked.checkpoint)
        )
        self.late[stream.name] = max(self.late.get(stream.name, 0), asked.late)
        return DoneReply()

    def _drop(self, peer: int, asked: DropRequest) -> DropReply:
        stream = self._held(asked)
        if stream.status == "open" and not asked.left:
            raise StreamError(f"stream {stream.name!r} is still being written")
        # A program may open a file again after its stream was closed: what it is refused then mustn't go unheard.
        if asked.known is not None and not set(stream.refused) <= {*asked.known}:
            return DropReply(refused=tuple(stream.refused))
        self._store.record(DropRecord(stream=stream.name))
        self._attached.pop(stream.name, None)
        self.late.pop(stream.name, None)
        self._tell(stream.name, None)
        return DropReply()

    def check(self, asked: WatchRequest) -> None:
        """Check that an analysis which watches is the stream's; who names none may be anybody.

        Raises
        ------
        StreamError
            If another one has taken over, or there is no such stream.
        """
        if asked.epoch is not None:
            self._held(asked)

    def _held(self, asked: DoneRequest | PlanRequest | DropRequest | WatchRequest) -> Stream:
        name = asked.stream
        if name not in self._store.streams:
            known = ", ".join(self._store.streams) or "none"
            raise StreamError(f"there is no stream {name!r} on this node (there are: {known})")
        stream = self._store.streams[name]
        if asked.epoch is not None and asked.epoch != stream.epoch:
            raise StreamError(f"another analysis has taken over stream {stream.name!r}: this one must end")
        return stream
