"""Merging the states of separate runs, such as the members of an ensemble, and publishing what comes of it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from bbflow.errors import ConfigError
from bbflow.host.belongings import claim
from bbflow.operators.configured import parse_diagnostics
from bbflow.operators.diagnostic import Diagnostic
from bbflow.operators.own.guard import collecting
from bbflow.operators.own.origin import look_in, naming_no_code
from bbflow.operators.space.coarsening import pyramid_of
from bbflow.operators.space.described import described
from bbflow.operators.space.pyramids import Pyramid
from bbflow.operators.space.weight_sources import target_mesh
from bbflow.operators.steps import Array
from bbflow.operators.windows.spans import StepsSpan
from bbflow.operators.windows.window import Window
from bbflow.stream.cf import StreamAttributes
from bbflow.transit.chain.comparing import check_diagnostics, check_states
from bbflow.transit.chain.saved import SavedState, StateWriter, read_state
from bbflow.transit.chain.saving import place_coordinates, place_states
from bbflow.transit.output.claiming import STATE_FILE, pyramid_files, written
from bbflow.transit.output.fields import coordinate_name
from bbflow.transit.output.pyramid_stores import Pyramids
from bbflow.transit.output.results import Results
from bbflow.transit.publication.finish import Finishing, Partial
from bbflow.transit.publication.reduce import partial_of
from bbflow.transit.spans.slots import OUTER, StateSlot, WindowKey, whole_units
from bbflow.transit.spans.timeline import Closing, Passed, Span, Timeline
from bbflow.transit.states.inherited import map_part, remainder
from bbflow.transit.states.state_layouts import state_layout_of
from bbflow.zarr_store.growing import zarr_files

Spans = Mapping[str, Mapping[WindowKey, Span]]


@dataclass(frozen=True, slots=True)
class Merged:
    """What came of a merge."""

    state: SavedState
    """Of all runs."""
    left_out: tuple[str, ...]
    """Spans that some runs had steps in, and don't hold any more."""
    incomplete: tuple[Path, ...]
    """States of runs whose results lack something."""
    lacking: tuple[str, ...] = ()
    """Pyramids that can't be made, each with the reason."""


def merge_states(paths: Sequence[Path], output: Path, operators: Path | None = None) -> Merged:
    """Merge states and publish ``results.zarr`` of the spans that they hold.

    Parameters
    ----------
    paths
        State files, or output directories that have one.
    output
        Gets the results and the merged state.
    operators
        Directory with the modules of operators of one's own; without it none is loaded, whatever a state names.

    Raises
    ------
    ConfigError
        If the states don't go together, operators need the order of steps and the runs overlap, or there are results
        in the output.
    DamagedError
        If a state is damaged.
    """
    states = sorted(map(read_state, paths), key=lambda state: state.period)
    if len({state.path.resolve() for state in states}) < max(len(states), 2):
        raise ConfigError("a merge needs two states or more, each given once")
    if operators is not None:
        look_in(str(operators.resolve()))
    with naming_no_code(str(states[0].path)) if operators is None else nullcontext():
        diagnostics = parse_diagnostics(states[0].content["operators"], list(states[0].content["windows"]))
    check_diagnostics(states[0], diagnostics)
    for state in states[1:]:
        check_states(states[0], state)
    _check_order(states, diagnostics)
    for key, item in states[0].fields.items():
        if item.field.map is not None:
            raise ConfigError(
                f"{key}: its points lie by the decomposition {item.field.map.name}, which no state has: states of such "
                "fields can't be merged; let one run continue the other (--continue)"
            )
    store = output / "results.zarr"
    if store.exists():
        raise ConfigError(f"{store} is there from an earlier run: give another output")
    claim(output, *zarr_files(store.name), *pyramid_files(), *written(STATE_FILE))
    windows = {window.name: window for item in diagnostics.values() for window in item.windows}
    spans, left_out = merge_spans(states, windows)
    state = _write(states, diagnostics, spans, output)
    pyramids, lacking = pyramids_of(state, diagnostics)
    complete = state.complete and not left_out and not lacking
    results = _publish(state, diagnostics, windows, spans, store, complete=complete)
    _write_pyramids(results, state, diagnostics, windows, pyramids)
    return Merged(state, left_out, tuple(each.path for each in states if not each.complete), lacking)


def pyramids_of(state: SavedState, diagnostics: Mapping[str, Diagnostic]) -> tuple[dict[str, Pyramid], tuple[str, ...]]:
    """Find the levels that the runs were asked for; a state doesn't have them.

    Returns
    -------
    tuple
        Diagnostic to its levels, and what is lacking where the target of a remap isn't known any more.
    """
    found, lacking = dict[str, Pyramid](), list[str]()
    for key, item in diagnostics.items():
        move = None if item.space is None else item.space.remap
        if move is None or move.pyramid is None:
            continue
        try:
            mesh, field = target_mesh(move), state.fields[key].field
            own = tuple(coordinate_name(key, dim) for dim in described(mesh, frozenset()).dims)
            at = next(at for at in range(len(field.dims)) if field.dims[at : at + len(own)] == own)
            found[key] = pyramid_of(mesh, at, move.pyramid, frozenset())
        except ConfigError as error:
            lacking.append(f"the pyramid of {item.name}: {error}")
    return found, tuple(lacking)


def _write_pyramids(
    results: Results,
    state: SavedState,
    diagnostics: Mapping[str, Diagnostic],
    windows: Mapping[str, Window],
    found: Mapping[str, Pyramid],
) -> None:
    pyramids = Pyramids(results.path.parent)
    for window in windows.values():
        fields = [
            (replace(state.fields[key].field, pyramid=own), diagnostics[key].operators)
            for key, own in found.items()
            if window in diagnostics[key].windows
        ]
        if fields and (number := results.shown(window.name)):
            pyramids.follow(results, window, fields, number - 1)


def _check_order(states: Sequence[SavedState], diagnostics: Mapping[str, Diagnostic]) -> None:
    for item in diagnostics.values():
        ordered = [operator.name for operator in item.operators if not operator.family.commutes]
        for earlier, later in pairwise(states):
            if ordered and earlier.period[1] >= later.period[0]:
                raise ConfigError(
                    f"{item.name}: {', '.join(ordered)} can be merged of runs that follow each other only, but "
                    f"{later.path} begins before {earlier.path} ends: take the operators out"
                )


def merge_spans(states: Sequence[SavedState], windows: Mapping[str, Window]) -> tuple[Spans, tuple[str, ...]]:
    """Merge the spans that the states hold.

    Parameters
    ----------
    states
        In the order of time.
    windows
        By name.

    Returns
    -------
    tuple
        The spans of each window, and what is left out: spans that a run had steps in, but has published already.
    """
    found: dict[str, dict[WindowKey, Span]] = {}
    left_out = []
    for name, window in windows.items():
        known = [spans_of(state, name) for state in states]
        found[name] = {}
        for key in sorted({key for own in known for key in own}):
            own = [spans[key] for spans in known if key in spans]
            others = [state for state, spans in zip(states, known, strict=True) if key not in spans]
            if _is_other(window, own) or any(_had_steps(state, window, own[0]) for state in others):
                left_out.append(f"{name} {'-'.join(f'{number:02d}' for number in key)}".strip())
            else:
                first, last = min(span.first for span in own), max(span.last for span in own)
                steps, missing = sum(span.steps for span in own), sum(span.missing for span in own)
                found[name][key] = Span(key, first, last, steps, missing)
    return found, tuple(left_out)


def _is_other(window: Window, spans: Sequence[Span]) -> bool:
    """Whether spans of one key aren't of one time: those of n steps start again in each run."""
    begins, ends = max(span.first for span in spans), min(span.last for span in spans)
    return isinstance(window.spans, StepsSpan) and begins > ends


def _had_steps(state: SavedState, window: Window, span: Span) -> bool:
    """Whether a run has been in a span of another one, and holds nothing of it any more."""
    if window.keeps is None:
        return False
    first, last = state.clock.date(span.first), state.clock.date(span.last)
    begin, end = (state.clock.number(date) for date in window.spans.bounds(span.key, first, last))
    return state.period[0] < max(end, span.last) and state.period[1] >= min(begin, span.first)


def spans_of(state: SavedState, window: str) -> dict[WindowKey, Span]:
    """Return a window's spans that a state holds."""
    return {span.key: span for span in state.timeline.spans[window]}


def _write(
    states: Sequence[SavedState], diagnostics: Mapping[str, Diagnostic], spans: Spans, output: Path
) -> SavedState:
    """Write the merged state: that of the last run, with the spans of all."""
    last = states[-1]
    arrays = [(item, last.coordinate(item)) for item in last.coordinates]
    coordinates, end = place_coordinates(arrays, 0)
    fields = {}
    for key, item in last.fields.items():
        slots = [
            StateSlot(OUTER, window.name, span) for window in diagnostics[key].windows for span in spans[window.name]
        ]
        offsets, end = place_states(diagnostics[key], item.dtype, item.field.shape, slots, end)
        fields[key] = replace(item, offsets=offsets)
    errors = {name: text for state in states for name, text in state.errors.items()}
    merged = replace(
        last,
        runs=sum(state.runs for state in states),
        number=max(state.number for state in states),
        timeline=merged_timeline(states, spans),
        fields=fields,
        coordinates=tuple(item for item, _ in coordinates),
        data_bytes=end,
        variables=tuple(sorted({name for state in states for name in state.variables})),
        complete=all(state.complete for state in states),
    )
    with collecting(errors) as failed:
        writer = StateWriter(output / STATE_FILE, replace(merged, errors=errors))
        for array, values in coordinates:
            writer.put(array.offset, values)
        for key, diagnostic in diagnostics.items():
            _merge_field(writer.state, states, key, diagnostic, str(output))
    return replace(writer.finish(), errors=errors | failed)


def merged_timeline(states: Sequence[SavedState], spans: Spans) -> Timeline:
    """Return the timeline of all runs: at the end of the last one, with the spans of all."""
    numbers = [state.timeline.numbers for state in states]
    latest = max(states, key=lambda state: state.period[1])
    return Timeline(
        {name: tuple(spans.get(name, {}).values()) for name in latest.timeline.spans},
        latest.timeline.current,
        Passed(
            min((own.interval for own in numbers if own.interval is not None), default=None),
            latest.period[1],
            sum(own.late for own in numbers),
            sum(own.missing for own in numbers),
            min(state.period[0] for state in states),
            max(own.longest for own in numbers),
            min(own.shortest for own in numbers),
            sum(own.steps for own in numbers),
            any(own.is_uneven for own in numbers),
            max(own.error for own in numbers),
        ),
    )


def _merge_field(
    target: SavedState, states: Sequence[SavedState], key: str, diagnostic: Diagnostic, directory: str
) -> None:
    """Merge the states of one diagnostic, span by span; what `each` has open becomes a step, as at a run's end."""
    item = target.fields[key]
    state_layout = state_layout_of(diagnostic, OUTER, np.dtype(item.dtype), item.field.shape)
    windows = {window.name: window for window in diagnostic.windows}
    inner = frozenset() if diagnostic.each is None else frozenset([diagnostic.each.window.name])
    with ExitStack() as stack:
        runs = []
        for run in states:
            own = stack.enter_context(remainder(diagnostic, run.inherited(key), directory))
            runs += [(run, own)] if own is not None else []
        for slot, offset in item.offsets.items():
            if not state_layout.nbytes:
                continue
            whole = map_part(str(target.path), target.begin + offset, state_layout.nbytes, "r+")
            state_layout.clear(whole)
            for run, own in runs:
                if (span := spans_of(run, slot.window).get(slot.key)) is not None:
                    closing = Closing(windows[slot.window], (span,), inner)
                    partial = partial_of(diagnostic, closing, target.inherited(key).region, own)
                    state_layout.combine(whole, partial.merged(state_layout), whole)


def _publish(
    state: SavedState,
    diagnostics: Mapping[str, Diagnostic],
    windows: Mapping[str, Window],
    spans: Spans,
    store: Path,
    *,
    complete: bool,
) -> Results:
    attributes = StreamAttributes(state.attributes, variables=state.variables or None)
    results = Results(store, state.stream, attributes, state.clock)
    for item in state.coordinates:
        results.add_coordinate(item.name, state.coordinate(item), item.dims, item.attributes)
    with collecting(state.errors) as errors:
        for window in windows.values():
            for closing in closings_of(window, spans[window.name], state):
                fields = {
                    key: (state.fields[key].field, item.operators, _finalize(state, key, item, closing))
                    for key, item in diagnostics.items()
                    if window in item.windows and item.operators
                }
                results.publish(closing, fields, errors)
    counted = {"bbflow_late_steps": state.late, "bbflow_missing_steps": state.missing}
    status = "complete" if complete else "incomplete"
    results.commit_late(attributes)  # no variable comes later
    results.commit(bbflow_status=status, bbflow_merged_runs=state.runs, **counted)
    return results


def closings_of(window: Window, spans: Mapping[WindowKey, Span], state: SavedState) -> Iterator[Closing]:
    """Yield what is published of a window: each span; of a running window the one that ends with the last step."""
    if window.keeps in (None, 1):
        yield from (Closing(window, (span,), frozenset()) for span in spans.values())
        return
    current = state.keys[window.name]
    keys = whole_units(window, spans, current) if current is not None and current in spans else None
    if keys is not None:
        yield Closing(window, tuple(spans[key] for key in keys), frozenset())


def _finalize(state: SavedState, key: str, diagnostic: Diagnostic, closing: Closing) -> dict[str, Array]:
    """Return the results of a span: of a running window its units are merged."""
    item = state.fields[key]
    shape, size = item.field.shape, state_layout_of(diagnostic, OUTER, np.dtype(item.dtype), item.field.shape).nbytes
    offsets = (state.begin + item.offsets[StateSlot(OUTER, closing.window.name, span)] for span in closing.keys)
    states = tuple(map_part(str(state.path), offset, size, "r") if size else b"" for offset in offsets)
    return Finishing(diagnostic, shape, [Partial((0,) * len(shape), shape, item.dtype, states)]).whole()
