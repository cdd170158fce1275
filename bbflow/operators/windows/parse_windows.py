"""Windows as the configuration writes them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from bbflow.errors import ConfigError, nearest
from bbflow.operators.windows.frequencies import EXAMPLES, GROUPS, frequency_window
from bbflow.operators.windows.kinds import KINDS, WindowKind
from bbflow.operators.windows.window import Window
from bbflow.reading.sections import Parameter, one_of, read_parameters, text

COMMON = {
    "name": Parameter(text, "what the results are called", None),
    "closed": Parameter(one_of("left", "right"), "on which side a span holds its boundary", "left"),
}
"""Parameters that every window takes."""


def parse_windows(items: Sequence[Any]) -> tuple[Window, ...]:
    """Make windows of a list such as ``["month", {"years": 10}, {"season": {"months": "JJAS"}}, "MS"]``.

    Returns
    -------
    tuple of Window
        Finest first, whatever the order of the items.

    Raises
    ------
    ConfigError
        If there is none, or a name or parameter is unknown, wrong, or given twice.
    """
    if not items:
        raise ConfigError(f"no windows are given; valid are {', '.join(KINDS)}")
    windows = [parse_window(item) for item in items]
    names = [window.name for window in windows]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"window {name!r} is given twice: take one out, or give them a 'name'")
    return tuple(sorted(windows, key=lambda window: -window.level))


def parse_window(item: Any) -> Window:
    """Make a window of a name, a map of one name to its parameters, or xarray's name.

    Raises
    ------
    ConfigError
        If it's none of these.
    """
    name, value = _part(item)
    if name in ("resample", "groupby"):
        return _of_xarray(name, value)
    if name not in KINDS:
        meant = _meant(name) if value is None else None
        if meant is None:
            raise ConfigError(f"unknown window {name!r}; {nearest(name, [*KINDS, 'resample', 'groupby'])}")
        return parse_window(meant)
    return _make(KINDS[name], value)


def _part(item: Any) -> tuple[str, Any]:
    if isinstance(item, Mapping) and len(item) == 1:
        ((name, value),) = item.items()
        return str(name), value
    if isinstance(item, Mapping):
        raise ConfigError(f"{dict(item)!r} is not a window: write a map of one name to its parameters")
    return str(item), None


def _meant(name: str) -> Any:
    return GROUPS.get(name) or frequency_window(name)


def _of_xarray(call: str, value: Any) -> Window:
    """Read what stands in the brackets of resample(time="MS") and groupby("time.month")."""
    if isinstance(value, Mapping):
        value = value.get("time") if len(value) == 1 else None
    meant = GROUPS.get(str(value)) if call == "groupby" else frequency_window(str(value))
    if meant is None:
        raise ConfigError(
            f"{call}: {value!r} has no window; {nearest(str(value), GROUPS if call == 'groupby' else EXAMPLES)}"
        )
    return parse_window(meant)


def _make(kind: WindowKind, value: Any) -> Window:
    given = dict(value) if isinstance(value, Mapping) else {} if value is None else {_main(kind, value): value}
    where = f"window {kind.name!r}"
    read = read_parameters(where, {**kind.parameters, **COMMON}, given)
    common = {name: read.pop(name) for name in COMMON}
    try:
        return _with_common(kind.make(**read), **common)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def _main(kind: WindowKind, value: Any) -> str:
    if kind.main is None:
        raise ConfigError(f"window {kind.name!r} takes no value, but it is {value!r}")
    return kind.main


def _with_common(window: Window, name: str | None, closed: str) -> Window:
    chosen = window.name if name is None else name
    if not re.fullmatch(r"[A-Za-z0-9_]+", chosen):
        raise ConfigError(f"name {chosen!r} must be a word of letters, digits and _")
    if closed == "right" and not window.has_boundary:
        raise ConfigError("closed: steps have no boundary to be closed on; take it out")
    return replace(window, name=chosen, closed=closed)
