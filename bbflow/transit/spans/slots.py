"""Which states a shard keeps: one of the open base span, and one for each span of a window that is alive."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from bbflow.operators.windows.window import Window

WindowKey = tuple[int, ...]
Keys = Mapping[str, WindowKey | None]
"""Window name to the span that a step is in; None if it is in none."""

OUTER, INNER, CARRIED = "outer", "each", "carried"
"""The statistics' own states, those of `each`, and what the transforms carry from step to step."""


class StateSlot(NamedTuple):
    """The place of one state."""

    level: str
    """`OUTER`, `INNER` or `CARRIED`."""
    window: str = ""
    """Name of the window; empty for the base: the steps since any window's span has changed."""
    key: WindowKey = ()
    """The window's span."""


LEVELS = OUTER, INNER, CARRIED
BASE = {level: StateSlot(level) for level in LEVELS}


def plan_roll(
    level: str, windows: Sequence[Window], old: Keys, new: Keys, slots: Iterable[StateSlot]
) -> tuple[list[StateSlot], list[StateSlot]]:
    """Return what the base of a level is merged into when it closes, and which states are done with.

    Parameters
    ----------
    level
        Which one.
    windows
        Of that level.
    old, new
        Spans of the base that closes, and of the step that comes next.
    slots
        What is kept so far.
    """
    merged: list[StateSlot] = []
    dropped: list[StateSlot] = []
    for window in windows:
        own = {slot for slot in slots if slot.level == level and slot.window == window.name}
        before, after = old[window.name], new[window.name]
        if before is not None:
            own.add(StateSlot(level, window.name, before))
        alive = living(window, [slot.key for slot in own], after)
        dropped += [slot for slot in own if slot.key not in alive]
        if before is not None and before in alive:
            merged.append(StateSlot(level, window.name, before))
    return merged, dropped


def living(window: Window, keys: Iterable[WindowKey], current: WindowKey | None) -> set[WindowKey]:
    """Return the spans whose states are needed further: of a running window the newest ones, of a climatology all.

    Parameters
    ----------
    window
        The window.
    keys
        Spans that have a state.
    current
        The span of the step that comes next.
    """
    known = sorted(set(keys))
    if window.keeps is None:
        return set(known)
    others = [key for key in known if key != current]
    # The current span takes a place, whether it has a state of its own yet or not.
    return set(others[max(len(others) - window.keeps + 1, 0) :]) | (set(known) - set(others))


def slots_of(level: str, window: Window, keys: Iterable[WindowKey]) -> tuple[StateSlot, ...]:
    """Return the places of some spans' states, oldest first."""
    return tuple(StateSlot(level, window.name, key) for key in keys)


def is_behind(each: Window, windows: Sequence[Window], last: Keys, current: Keys, following: Keys | None) -> bool:
    """Whether a state's `each` must be handed on to the current spans before these end, or count nowhere.

    Parameters
    ----------
    each, windows
        Those of the `each`, and of the statistics.
    last, current
        Spans of the last step that the state has, and that the stream has.
    following
        Those of the next step; None at the stream's end.
    """
    inner, outer = each.name, [window.name for window in windows]
    ends = following is None or following[inner] != current[inner]
    if last[inner] == current[inner]:
        return ends and any(last[name] != current[name] for name in outer)
    # What has ended by now is part of the spans that end together with one of its kind (`Closing.inner`).
    return following is not None and not ends and any(last[name] == current[name] != following[name] for name in outer)


def whole_units(window: Window, keys: Iterable[WindowKey], current: WindowKey) -> list[WindowKey] | None:
    """Return the units of the span that ends with the current one, oldest first; None if some are missing.

    Parameters
    ----------
    window
        A window that isn't a climatology.
    keys
        Units that have a state.
    current
        The unit that ends.
    """
    assert window.keeps is not None
    units = sorted({*keys, current})
    units = units[: units.index(current) + 1][-window.keeps :]
    neighbours = all(window.follows(a, b) for a, b in pairwise(units))
    return units if len(units) == window.keeps and neighbours else None
