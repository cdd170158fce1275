"""The tasks that publish: what one host reduces of some fields, and the chunks that it writes of them."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from itertools import pairwise, product
from typing import Any

import numpy as np

from bbflow.operators.diagnostic import Diagnostic
from bbflow.operators.frozen import Frozen
from bbflow.operators.operator import Operator
from bbflow.operators.own.guard import collecting
from bbflow.operators.steps import Array
from bbflow.stream.point_maps import PointMap
from bbflow.transit.publication.finish import Finishing, Partial, state_layout_of_part
from bbflow.transit.publication.reduce import (
    STACK_BYTES,
    FieldParts,
    LyingStates,
    partials_of,
    parts_of_field,
    remainder_of,
    slots_in,
    stacked_results,
)
from bbflow.transit.spans.timeline import Closing, SpanKey
from bbflow.transit.states.inherited import Inherited
from bbflow.transit.states.shards import StatePlace, places_of
from bbflow.transit.states.tables import States
from bbflow.zarr_store.chunks import Chunk


@dataclass(frozen=True, slots=True)
class FieldWork(Frozen):
    """One field's span, as the nodes of one host have it."""

    diagnostic: Diagnostic
    """What is computed."""
    shape: tuple[int, ...]
    """Of the field."""
    span: Closing
    """Which span."""
    shards: tuple[States, ...]
    """The states that they have; their regions may overlap."""
    directory: str
    """Where one of them keeps states."""
    off: Mapping[str, str] = field(default_factory=dict)
    """Users' operators that have failed, and are called no more."""
    inherited: Inherited | None = None
    """What an earlier run has left, where it is this host that reads it."""
    targets: Mapping[str, Chunk] = field(default_factory=dict)
    """Operator name to where its result goes, where it is this host that writes."""
    spread: PointMap | None = None
    """Where its points lie in the grid of the results, if not as they are."""

    def parts(self) -> Iterator[Partial]:
        """Yield what the host has of it, mapped."""
        if self.inherited is not None:
            yield from remainder_of(self.diagnostic, self.span, self.inherited, self.directory)
        yield from partials_of(self.diagnostic, self.span, self.shards)


@dataclass(frozen=True, slots=True)
class Handed(Frozen):
    """What one host hands to another of some fields."""

    parts: tuple[tuple[Partial, ...], ...]
    """For each field its parts, each with one state."""
    errors: Mapping[str, str]
    """What failed in users' operators."""


@dataclass(frozen=True, slots=True)
class PublishReceipt:
    """What a task has written; readers see it once the driver has committed."""

    bytes: Mapping[SpanKey, int]
    """Bytes of each span's results."""
    errors: Mapping[str, str]
    """What failed in users' operators."""


def hand_over(works: Sequence[FieldWork]) -> Handed:
    """Return what one host has of some fields, for the host that reduces them; the task runs where the states are."""
    with collecting(works[0].off) as errors:
        parts = tuple(tuple(_copied(work.diagnostic, part) for part in work.parts() if part.states) for work in works)
    return Handed(parts, errors)


def _copied(diagnostic: Diagnostic, part: Partial) -> Partial:
    state_layout = state_layout_of_part(diagnostic, part)
    state = np.frombuffer(memoryview(part.merged(state_layout))[: state_layout.nbytes], np.uint8)
    return replace(part, states=(state,))


def publish_fields(works: Sequence[FieldWork], *others: Handed) -> PublishReceipt:
    """Write the results of some fields into their chunks; running it again writes the same.

    Parameters
    ----------
    works
        Of this host.
    *others
        What other hosts have of the same fields.
    """
    sizes: Counter[SpanKey] = Counter()
    stacks, alone = ([], works) if others else stacked(works)
    for stack in stacks:
        _write_stack(stack, sizes)
    with _all_errors(works, others) as errors:
        for work, finishing in _finishing(alone, others):
            sizes[work.span.key] += _write(work, finishing)
    return PublishReceipt(sizes, errors)


Stack = Sequence[Sequence[tuple[FieldWork, LyingStates]]]
"""For each span of a window some fields with the same statistics, whose states lie alike."""


def stacked(works: Sequence[FieldWork]) -> tuple[list[Stack], list[FieldWork]]:
    """Put works together that can be reduced in one call; gives the others too."""
    # By `id`, which stays as long as the works are here: to compare rosters and diagnostics would take longer.
    kinds, operators = dict[int, int](), dict[tuple[Operator, ...], int]()
    known: dict[Any, FieldParts | None] = {}
    places: dict[Any, tuple[StatePlace, ...]] = {}
    spans: dict[Any, list[tuple[FieldWork, LyingStates]]] = {}
    alone = []
    for work in works:
        lying = _lying(work, known, places)
        if lying is None:
            alone.append(work)
            continue
        if (at := id(work.diagnostic)) not in kinds:
            kinds[at] = operators.setdefault(work.diagnostic.operators, len(operators))
        kind = kinds[at], lying.layout.dtype.str, work.shape, lying.layout.points, len(lying.places)
        spans.setdefault((work.span.key, kind), []).append((work, lying))
    stacks: dict[Any, list[Sequence[tuple[FieldWork, LyingStates]]]] = {}
    for ((window, _), kind), fields in spans.items():
        stacks.setdefault((window, kind, tuple(work.diagnostic.key for work, _ in fields)), []).append(fields)
    return [some for stack in stacks.values() for some in _cut(stack)], alone


def _lying(
    work: FieldWork, known: dict[Any, FieldParts | None], places: dict[Any, tuple[StatePlace, ...]]
) -> LyingStates | None:
    """Return where the states of a work lie; None if they must be looked at one by one."""
    # What many works share is found once.
    shards, inner_ends = work.shards, work.span.ends_inner(work.diagnostic)
    if len(shards) != 1 or inner_ends or work.inherited is not None or work.spread is not None:
        return None
    alike, like = shards[0], shards[0].like
    field, where = (id(work.diagnostic), id(alike.roster), like.dtype, work.shape), (id(like), work.span.key)
    if field not in known:
        known[field] = parts_of_field(work.diagnostic, alike, work.shape)
    if where not in places:
        places[where] = tuple(places_of(like.files, slots_in(work.span, like)))
    parts = known[field]
    return LyingStates(parts[0], places[where], parts[1]) if parts is not None and places[where] else None


def _cut(stack: Stack) -> Iterator[Stack]:
    """Cut a stack into such as take little memory."""
    most = max(STACK_BYTES // stack[0][0][1].nbytes, 1)
    fields = min(most, len(stack[0]))
    for first, begin in product(range(0, len(stack[0]), fields), range(0, len(stack), most // fields)):
        yield [span[first : first + fields] for span in stack[begin : begin + most // fields]]


def _write_stack(stack: Stack, sizes: Counter[SpanKey]) -> None:
    """Write the results of all fields and spans of a stack."""
    results = stacked_results(stack[0][0][0].diagnostic, [[lying for _, lying in span] for span in stack])
    for name, values in results.items():
        for span in stack:
            for work, _ in span:
                sizes[work.span.key] += values[0, 0].nbytes
        for number, spans in enumerate(zip(*stack, strict=True)):
            targets = [work.targets[name] for work, _ in spans]
            own = values[number].reshape((len(stack), *values.shape[2:-1], *spans[0][0].shape))
            for first, last in _following(targets):
                targets[first].chunks.write_spans(targets[first].index, own[first:last])


def _following(targets: Sequence[Chunk]) -> Iterator[tuple[int, int]]:
    """Yield which of some chunks follow each other: from one on, up to another."""
    beside = [b.chunks is a.chunks and b.index == a.index + 1 for a, b in pairwise(targets)]
    return pairwise([0, *(at for at, is_beside in enumerate(beside, 1) if not is_beside), len(targets)])


def reduce_fields(works: Sequence[FieldWork], *others: Handed) -> tuple[list[dict[str, Array]], Mapping[str, str]]:
    """Return the results of some fields in memory, by operator, and what failed in users' operators."""
    with _all_errors(works, others) as errors:
        results = [
            _spread(work, finishing) if work.spread else finishing.whole()
            for work, finishing in _finishing(works, others)
        ]
    return results, errors


def _all_errors(works: Sequence[FieldWork], others: Sequence[Handed]) -> AbstractContextManager[dict[str, str]]:
    return collecting(dict(works[0].off) | {name: text for other in others for name, text in other.errors.items()})


def _finishing(works: Sequence[FieldWork], others: Sequence[Handed]) -> Iterator[tuple[FieldWork, Finishing]]:
    for number, work in enumerate(works):
        parts = [*work.parts(), *(part for other in others for part in other.parts[number])]
        yield work, Finishing(work.diagnostic, work.shape, parts)


def _write(work: FieldWork, finishing: Finishing) -> int:
    """Write a field's results, large ones band by band; each chunk takes its place when it is whole."""
    if work.spread is not None or finishing.is_small:
        found = _spread(work, finishing) if work.spread is not None else finishing.whole()
        for name, values in found.items():
            work.targets[name].write(values)
        return sum(values.nbytes for values in found.values())
    size = 0
    with ExitStack() as stack:
        files = {
            name: stack.enter_context(target.chunks.replacing(target.index)) for name, target in work.targets.items()
        }
        for (first, _), results in finishing.bands():
            for name, values in results.items():
                work.targets[name].chunks.write_rows(files[name], first, values)
                size += values.nbytes
    return size


def _spread(work: FieldWork, finishing: Finishing) -> dict[str, Array]:
    """Return results in their grid; where the map has no point they are as without any value."""
    assert work.spread is not None
    empty = finishing.without_values()
    return {name: work.spread.spread(values, empty[name]) for name, values in finishing.whole().items()}
