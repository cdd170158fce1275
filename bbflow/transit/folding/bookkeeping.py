"""What is folded next, and which states count: the fold's bookkeeping, without any I/O."""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from itertools import count

from msgspec import Raw, structs

from bbflow.configuring.settings import Config
from bbflow.operators.diagnostic import Diagnostic
from bbflow.operators.space.placement import Placement
from bbflow.operators.windows.calendars import Clock
from bbflow.transit.folding.batches import Batch, Cutter, planned_steps
from bbflow.transit.folding.lanes import JOINED, Lanes, NodeLane
from bbflow.transit.folding.patterns import Pattern, Patterns, Shapes
from bbflow.transit.folding.planning import FoldSite, Planning
from bbflow.transit.folding.plans import FoldPlan, PlannedSteps
from bbflow.transit.folding.series import join_partials, uneven
from bbflow.transit.folding.work import FoldReceipt, LaneWork, SpanWork
from bbflow.transit.spans.slots import Keys, is_behind
from bbflow.transit.spans.timeline import Closing, Windows
from bbflow.transit.states.checkpoints import common_of, counted_states, first_checkpoint, read_checkpoints
from bbflow.transit.states.inherited import Before, Inherited, Origins
from bbflow.transit.states.kept import EndedSpans, Kept
from bbflow.transit.states.losses import Untimely
from bbflow.transit.states.shards import Region, Row, ShardKey, ShardState, overlapping
from bbflow.transit.states.tables import Roster, States
from bbflow.transit.states.written import pack
from bbflow.view.consumers import Cursor
from bbflow.view.stream import StreamView


class Folding:
    """Keeps the states that count and cuts the work.

    Parameters
    ----------
    config
        The run's configuration.
    cursors
        For each node, how far it is folded and the checkpoint stored with that.
    before
        What an earlier run has left, if this one continues it.
    settled
        What this run has kept of diagnostics before their blocks moved, if its checkpoints name it (`settled_files`).
    rosters
        Those that its checkpoints name (`named_rosters`), by their digests.
    """

    def __init__(
        self,
        config: Config,
        cursors: Mapping[str, Cursor],
        before: Before | None = None,
        settled: Mapping[str, Inherited] | None = None,
        rosters: Mapping[str, Roster] | None = None,
    ) -> None:
        self.config = config
        """The run's configuration."""
        self.windows = Windows.of(config.diagnostics.values())
        """Those that steps are in."""
        self.origins = Origins(before.states if before else {}, settled or {})
        """What new shards begin with."""
        self.cursor = min(step for step, _ in cursors.values())
        """Every step up to this one is folded."""
        checkpoints, first = read_checkpoints(cursors), first_checkpoint(self.windows, config.time.interval, before)
        self._begun = first.timeline.numbers
        self.common = common_of(checkpoints, self.cursor, first, self.windows)
        """What holds of all nodes together, as their checkpoints have it."""
        self.states = counted_states(checkpoints, rosters or {}, self.origins.settled)
        """The states that count."""
        self.patterns = Patterns(config.diagnostics)
        """Where the blocks of steps lie in the fields."""
        self.cutter = Cutter(config, self.windows, self.patterns)
        """Cuts what has landed into batches."""
        self.lanes = Lanes(config.stream, config.output)
        """Where shards are folded, and where their states lie."""
        self.planning = Planning(config.diagnostics, {}, self.lanes)
        """Cuts patterns into plans."""
        self._rosters: dict[str, Roster] = {}
        self._attempts = count()
        self._stepwise: frozenset[str] = frozenset()
        """Diagnostics whose values have come and gone in some of the blocks that are joined."""
        self._stayed: tuple[list[Pattern], int] | None = None

    @property
    def number(self) -> int:
        """The cursor, counted through a chain of jobs."""
        return self.cursor + (self.common.offset or 0)

    @property
    def late(self) -> int:
        """Steps of this run that were left out."""
        return self.common.timeline.numbers.late - self._begun.late

    @property
    def has_all(self) -> bool:
        """Whether the results have all steps whose times can be used, or the configuration wants no others.

        A run without a usable time has nothing, which can't be what is wanted, unless the run before had all steps.
        """
        has_some = self._lacking.steps <= self.cursor or self.common.timeline.numbers.is_restarted
        return not self._lacking.steps or (self._skips_late and has_some)

    @property
    def left_out(self) -> list[str]:
        """What was left out for its time, in words."""
        lacking = self._lacking
        return [lacking.described(self.cursor + 1, wanted=self._skips_late)] if lacking.steps else []

    @property
    def seldom(self) -> list[str]:
        """The fields that were in some of the steps only, in words, unless the configuration takes that as it comes."""
        diagnostics = self.config.diagnostics.items()
        taken = {key for key, item in diagnostics if item.skips_absent} - self.common.attendance.never
        return self.common.attendance.described(taken | self.patterns.given_up.keys())

    @property
    def _skips_late(self) -> bool:
        return self.config.time.late == "skip"

    @property
    def _lacking(self) -> Untimely:
        """What the results lack, which is all if nothing is later than the run before: times may have started over."""
        common = self.common
        if common.offset is None and self.late and not (common.untimely.steps or common.losses):
            last = common.timeline.numbers.last
            return Untimely(self.late, f"step 0, since the run before has later ones (up to {last:g})")
        return common.untimely

    @property
    def missing(self) -> int:
        """Steps that were expected in gaps of this run, or between it and the one before."""
        return self.common.timeline.numbers.missing - self._begun.missing

    def closing(self, keys: Keys | None) -> list[Closing]:
        """Return what ends before a step with some spans, or with the stream; as `Timeline.closing`."""
        return self.common.timeline.closing(self.windows, keys)

    def next_batch(self, view: StreamView, clock: Clock, before: float = math.inf, most_spans: int = 1) -> Batch | None:
        """Return the next steps to fold, as `Cutter.next_batch` does."""
        return self.cutter.next_batch(view, clock, self.cursor, self.common, self._takes_spans, before, most_spans)

    def _takes_spans(self, pattern: Pattern) -> bool:
        """Whether a task may fold several spans of steps that lie so.

        Not if blocks are joined between the nodes' tasks, if some shards are ahead of the cursor: what these had when
        a span ended is gone, or if some that have an `each` have no block in the steps (`behind`).
        """
        if any(self._lacks_shards(pattern, key) for key, item in self.config.diagnostics.items() if item.each):
            return False
        keys = (key for name in self.patterns.placements for key in pattern.regions[name])
        is_joined = any(self.planning.is_joined(key, pattern.shapes) for key in keys)
        return not is_joined and not any(like.last_step > self.common.last_number for like in self.states.likes)

    def _lacks_shards(self, pattern: Pattern, key: str) -> bool:
        known = sum(own.count for table in self.states.tables for own in table.fields if own.is_of(key))
        return key in pattern.absent or known > len(pattern.regions[key])

    @property
    def gappy(self) -> Set[str]:
        """The diagnostics that some steps had no values for, so that they may lack spans."""
        return self.patterns.given_up.keys() | self.common.attendance.absent.keys()

    def behind(self, keys: Keys | None) -> list[str]:
        """Return the diagnostics whose `each` must be handed on before a step with some spans, or the stream's end.

        Shards that have no block in a step aren't folded, and stay in the spans of their last one. What `each` makes
        belongs to the span that has the last step of its own, so they must get there before either of these ends.
        """
        current = self.common.timeline.current
        if current is None:
            return []
        return [
            key
            for key, item in self.config.diagnostics.items()
            if item.each is not None
            and any(is_behind(item.each.window, item.windows, own, current, keys) for own in self._last_keys(key))
        ]

    def _last_keys(self, key: str) -> Iterator[Keys]:
        """Yield the spans of the last steps that a diagnostic's shards have, and that nothing has followed so far."""
        own = [own for table in self.states.tables for own in table.fields if own.is_of(key)]
        yield from (alike.like.keys for alike in own if alike.like.keys is not None)
        rest = self.origins.of(key, [region for alike in own for region in alike.roster.regions])
        if rest is not None and rest.free(*rest.region).any():
            yield rest.keys

    def lose(self, names: Collection[str], safe: Iterable[Row], nodes: Sequence[str]) -> None:
        """Continue without some nodes, from what was copied of their states."""
        losses, adopted = self.common.losses.lose(names, safe, {key for key, _, _ in self.states}, nodes)
        self.common = structs.replace(self.common, losses=losses)
        for table in States.of(adopted):
            self.states.put(table)

    def moved(self, batch: Batch) -> list[str]:
        """Return the diagnostics that need a point's steps in their order, but have a point's state elsewhere."""
        if self._stayed == (batch.patterns, self.states.changes):
            return []
        ordered = {key: own for key, own in batch.places.items() if self.config.diagnostics[key].needs_order}
        known: dict[str, dict[ShardKey, Region]] = {}
        for key, region, _ in self.states if ordered else ():
            known.setdefault(key.diagnostic, {})[key] = region
        moved = [key for key, own in ordered.items() if self._are_moved(own, known.get(key, {}), batch.shapes)]
        self._stayed = None if moved else (batch.patterns, self.states.changes)
        return moved

    def _are_moved(self, shards: Collection[ShardKey], known: Mapping[ShardKey, Region], shapes: Shapes) -> bool:
        """Whether any of a diagnostic's shards has no state, but points of shards that have one."""
        new = [key for key in shards if known and key not in known]
        joined = {key for key in new if self.planning.is_joined(key, shapes)}
        if joined and all(key.count for key in known) and not known.keys() <= set(shards):
            return True  # what was in one block is joined from now on
        regions = [
            region for key in new if key not in joined and (region := self.planning.region(key, shapes)) is not None
        ]
        pairs = overlapping([*known.values(), *regions]) if regions else ()
        return any(min(pair) < len(known) <= max(pair) for pair in pairs)

    def settle(self, saved: Mapping[str, Inherited]) -> None:
        """Begin new shards of some diagnostics with what was saved of them."""
        self.lanes.let_go(self.states.drop(saved))
        self._plan_anew()  # plans say where states lie
        self.origins = self.origins.with_settled(saved)

    def place(self, placements: Mapping[str, Placement], held: Mapping[str, Diagnostic]) -> None:
        """Learn where the fields of diagnostics with a `space` lie, and of those that hold fields of files."""
        self.patterns.place(placements)
        self.config = self.config.holding(held)
        self._plan_anew()

    def _plan_anew(self) -> None:
        """Forget all plans; a shard stays in its lane."""
        self.planning = Planning(self.config.diagnostics, self.patterns.placements, self.lanes)

    def leave_out(self, through: int) -> None:
        """Pass steps that aren't there."""
        self.cursor = through

    def fail(self, errors: Mapping[str, str]) -> None:
        """Call users' operators that failed no more."""
        self.common = structs.replace(self.common, errors={**self.common.errors, **errors})  # tasks have the old ones

    def isolate(self) -> None:
        """Keep users' code away from the workers from now on: perhaps it has killed one."""
        self.config = self.config.isolated()
        self._plan_anew()

    @property
    def kept(self) -> Kept:
        """The states that count, with what a run needs that continues with them."""
        states: dict[str, list[States]] = {}
        for own in sorted((own for table in self.states.tables for own in table.fields), key=lambda own: own.order):
            states.setdefault(own.roster.diagnostics[0], []).append(own)
        return Kept(
            self.config, states, self.origins, self.common.errors, self.common.timeline, self.common.last_number
        )

    def works(
        self, batch: Batch, site: FoldSite, *, holds: bool = False
    ) -> dict[NodeLane, tuple[LaneWork, tuple[FoldPlan, ...]]]:
        """Cut a batch into the work of each lane, with the plans that it is done by.

        Parameters
        ----------
        batch
            The steps.
        site
            Where they are folded.
        holds
            Whether the stored checkpoint stays meanwhile, and so the states that it names.
        """
        found: dict[NodeLane, tuple[tuple[FoldPlan, ...], list[SpanWork]]] = {}
        for span in batch.spans:
            planned: dict[NodeLane, list[tuple[FoldPlan, PlannedSteps]]] = {}
            for pattern, stretch in span.stretches:
                for at, plan in self.planning.plans(pattern, site).items():
                    planned.setdefault(at, []).append((plan, planned_steps(plan, stretch, batch.offset)))
            for at, own in planned.items():
                plans, steps = zip(*own, strict=True)
                found.setdefault(at, (plans, []))[1].append(SpanWork(steps, span.keys))
        return self._lane_works(found, site, self.stepwise(batch, site), holds=holds)

    def _lane_works(
        self,
        found: Mapping[NodeLane, tuple[tuple[FoldPlan, ...], Sequence[SpanWork]]],
        site: FoldSite,
        stepwise: frozenset[str],
        *,
        holds: bool,
    ) -> dict[NodeLane, tuple[LaneWork, tuple[FoldPlan, ...]]]:
        """Return the work of lanes whose plans, and the steps of spans by these, are known; the rest as `works`."""
        lanes, counted = Counter(node for node, _ in found), self.states.by_directory
        threads = max(site.threads // len(site.directories), 1)
        first = (zip(plans, spans[0].steps, strict=True) for plans, spans in found.values())
        inherited, works = self._inherited([item for own in first for item in own]), {}
        for at, (plans, spans) in found.items():
            roster = Roster.united([plan.roster for plan in plans])
            self._rosters[roster.digest] = roster
            work = LaneWork(
                tuple(spans),
                self.common.errors,
                None if roster is plans[0].roster else roster,
                self.states.of(roster),
                {key: inherited[key] for key in roster.keys if key in inherited} if inherited else {},
                counted.get(plans[0].directories.states, frozenset()),
                holds,
                max(threads // lanes[at[0]], 1),
                stepwise,
                next(self._attempts),
            )
            works[at] = work, plans
        return works

    def again(self, work: LaneWork) -> LaneWork:
        """Return work that is given to another task, since it isn't known whether the first one is or will be done."""
        return replace(work, attempt=next(self._attempts))

    def joins_on(self, node: str) -> bool:
        """Whether a node has the states of what blocks of several ranks are joined into; see `series_work`."""
        return any(self.states.get(ShardKey(node, name, (), ())) is not None for name in self.patterns.placements)

    def stepwise(self, batch: Batch, site: FoldSite) -> frozenset[str]:
        """Return the diagnostics whose steps are joined one by one, and not their mean.

        That is so where blocks' values have come and gone, and where a state has some of the steps already.
        """
        node, numbers = min(site.directories), batch.numbers
        states = ((name, self.states.get(ShardKey(node, name, (), ()))) for name in self.patterns.placements)
        return self._stepwise | {name for name, own in states if own and numbers and own.last_step >= numbers[0]}

    def splits(self, receipts: Sequence[FoldReceipt]) -> bool:
        """Whether blocks' contributions can't be joined: some have the steps, others their mean.

        From then on all give the steps, in the same batch too, which must be folded again.
        """
        found = uneven([part for item in receipts for part in item.partials])
        self._stepwise |= found
        return bool(found)

    def _inherited(self, planned: Sequence[tuple[FoldPlan, PlannedSteps]]) -> dict[ShardKey, Inherited]:
        """Return what new shards begin with: what was kept of their points before."""
        planned = [(plan, steps) for plan, steps in planned if self.origins and not self.states.has_all(plan.roster)]
        begun: dict[ShardKey, Row] = {}
        for plan, steps in planned:
            new = ~States(plan.roster, self.states.of(plan.roster)).has
            for key, region, _ in plan.roster.members(new):
                begun.setdefault(key, (key, region, ShardState(first_step=steps.numbers[0])))
        return self.origins.of_shards(begun, self.states) if begun else {}

    def series_work(
        self, batch: Batch, receipts: Sequence[FoldReceipt], site: FoldSite, *, holds: bool = False
    ) -> tuple[LaneWork, tuple[FoldPlan, ...]]:
        """Return the work on what blocks of several ranks have contributed to, which one node has; as `works`."""
        node, local = min(site.directories), partial(self.planning.local, shapes=batch.shapes)
        partials = [part for item in receipts for part in item.partials]
        laid = {step.number + batch.offset: step for step in batch.laid}
        dtypes = {
            name: self.planning.dtype(name, batch.patterns, site) for name in {own.key.diagnostic for own in partials}
        }
        joined = dict(join_partials(partials, self.patterns.placements, local, laid, self.config.diagnostics, dtypes))
        plans = tuple(self.planning.joined_plan(ShardKey(node, name, (), ()), site, dtypes[name]) for name in joined)
        span = SpanWork(tuple(joined.values()), batch.spans[0].keys)
        return self._lane_works({(node, JOINED): (plans, [span])}, site, frozenset(), holds=holds)[node, JOINED]

    def take(self, batch: Batch, receipts: Sequence[FoldReceipt]) -> list[EndedSpans]:
        """Commit the results of a batch's tasks; gives what has ended within it, which isn't published yet."""
        ended = []
        for number, span in enumerate(batch.spans):
            if number and (closings := self.closing(span.keys)):
                ended.append(EndedSpans(closings, self.kept))
            for receipt in receipts:
                self.states.put(States(self._rosters[receipt.roster], receipt.spans[number].alike))
                self.fail(receipt.spans[number].errors)
            last_number = max(span.steps[-1].number + batch.offset, self.common.last_number)
            timeline = self.common.timeline.after(self.windows, span.times, span.keys, span.passed)
            self.common = structs.replace(self.common, timeline=timeline, last_number=last_number, offset=batch.offset)
        common = self.common
        self.common = structs.replace(
            common,
            timeline=structs.replace(common.timeline, numbers=batch.passed),
            untimely=common.untimely.with_more(batch.untimely),
            losses=common.losses.after(self._regions_in(batch) if common.losses else (), batch.torn),
            attendance=common.attendance.after(
                (step.number, step.pattern.absent, step.pattern.points) for step in batch.laid
            ),
        )
        self._rosters = {}
        self.cursor = batch.through
        return ended

    def _regions_in(self, batch: Batch) -> Iterator[tuple[int, dict[str, list[Region | None]]]]:
        """Yield a batch's steps, each with the regions of the fields that it has."""
        for step in batch.laid:
            region = partial(self.planning.region, shapes=step.pattern.shapes)
            there = {key: [region(shard) for shard in own] for key, own in step.pattern.regions.items()}
            yield step.number + batch.offset, there

    def was_published(self, closing: Closing) -> bool:
        """Whether an earlier analysis has published a span, and dropped states of it, before it died.

        It dies between the commits to two nodes: then the states of one are ahead of the cursor. A span is published
        before the first step after it is folded.
        """
        name = closing.window.name
        ahead = (like.keys for like in self.states.likes if like.last_step > self.common.last_number and like.keys)
        return any(keys[name] not in closing.keys for keys in ahead if name in keys)

    def checkpoints(self) -> Callable[[str], bytes]:
        """Return a function that packs what a node, by its name, must store with its cursor."""
        states: dict[str, dict[str, tuple[ShardState, ...]]] = {}
        for table in self.states.tables:
            states.setdefault(table.roster.node, {})[table.roster.digest] = table.alike
        common = structs.replace(
            self.common,
            nodes=frozenset(states),
            settled={key: (item.number, item.path) for key, item in self.origins.settled.items()},
        )
        # What holds for all nodes is packed once: it has the names of all of them.
        packed = {name: Raw(pack(getattr(common, name))) for name in common.__struct_fields__}
        return lambda node: pack(structs.replace(common, **packed | {"states": states.get(node, {})}))
