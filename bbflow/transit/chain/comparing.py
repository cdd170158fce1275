"""Which states go together: those of one calendar, of the same diagnostics, on the same grid."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from bbflow.configuring.settings import Config
from bbflow.errors import ConfigError
from bbflow.operators.diagnostic import Diagnostic
from bbflow.operators.operator import Operator
from bbflow.operators.statistics.weighting import TIME
from bbflow.operators.steps import DType
from bbflow.operators.windows.calendars import Clock, same_calendar
from bbflow.transit.chain.saved import SavedState, read_state
from bbflow.transit.output.claiming import FUNCTIONS_DIRECTORY
from bbflow.transit.output.fields import ResultField
from bbflow.transit.spans.lengths import check_guessed
from bbflow.transit.spans.slots import INNER, OUTER
from bbflow.transit.states.state_layouts import state_layout_of

NAMES = {"operators": "operators' names", "windows": "windows' names"}
"""Parts that users know by names, and the parts that tell these: other operators may continue from one state."""


def meaning_of(diagnostic: Diagnostic, dtype: DType) -> dict[str, str]:
    """Describe what a diagnostic computes, part by part, in words that another process gives again.

    Parameters
    ----------
    diagnostic
        Whose.
    dtype
        Type of the values after the transforms.
    """
    of, each = diagnostic.of, diagnostic.each
    parts = {
        "of": of.variables[0] if of.is_plain else of.text,
        "space": repr(diagnostic.space),
        "transforms": repr(diagnostic.transforms),
        "each": "" if each is None else f"{each.window!r}, {_told(each.operator)}",
        "then": diagnostic.then.text if diagnostic.then else "",
        "operators": state_layout_of(diagnostic, OUTER, dtype, ()).signature,
        "operators' other inputs": ", ".join(sorted(diagnostic.others)),
        "windows": ", ".join(sorted(map(repr, diagnostic.windows))),
        NAMES["operators"]: ", ".join(sorted(operator.name for operator in diagnostic.operators)),
        NAMES["windows"]: ", ".join(sorted(window.name for window in diagnostic.windows)),
    }
    parts |= {"weights": diagnostic.weights} if diagnostic.weights else {}
    parts |= {f"fields: {name}": str(item) for name, item in diagnostic.fields.items()}
    return parts if each is None else parts | {"each: state": state_layout_of(diagnostic, INNER, dtype, ()).signature}


def _told(operator: Operator) -> str:
    return repr((operator.name, operator.parameters, operator.min_count, operator.skipna, operator.inputs))


def check_diagnostics(saved: SavedState, diagnostics: Mapping[str, Diagnostic]) -> None:
    """Check that a state is of the diagnostics of a configuration.

    Raises
    ------
    ConfigError
        If not; the message names the first difference.
    """
    if never := sorted(diagnostics.keys() - saved.fields.keys()):
        raise ConfigError(
            f"operators of {never[0]} are in the configuration, but not in the state {saved.path}: they are new, or "
            "its run had none of their points and said so; take them out, or begin again without 'continue'"
        )
    _check_names(saved, diagnostics, "the configuration")
    for key, diagnostic in diagnostics.items():
        item = saved.fields[key]
        own = meaning_of(diagnostic, np.dtype(item.dtype))
        _check_meaning(saved, key, own, "the configuration")


def check_states(first: SavedState, other: SavedState) -> None:
    """Check that two states can be merged.

    Raises
    ------
    ConfigError
        If not; the message names the first difference.
    """
    check_clock(other, first.clock, str(first.path))
    _check_names(other, first.fields, str(first.path))
    for key, item in first.fields.items():
        _check_meaning(other, key, item.meaning, str(first.path))
        if other.fields[key].dtype != item.dtype:
            raise _differs(other, key, "type", other.fields[key].dtype, item.dtype, str(first.path))
        check_field(other, key, item.field, str(first.path))
    for name in sorted(first.places.keys() & other.places.keys()):
        if first.places[name] != other.places[name]:
            raise ConfigError(
                f"{name}, by which fields are placed, differs in the states {first.path} and {other.path}: {REMEDY}"
            )


def check_clock(saved: SavedState, clock: Clock, where: str) -> None:
    """Check that times mean the same: states keep numbers on the stream's time axis."""
    for what, own, other in (
        ("calendar", same_calendar(saved.clock.calendar), same_calendar(clock.calendar)),
        ("time units", saved.clock.units, clock.units),
    ):
        if own != other:
            raise ConfigError(f"the state {saved.path} has the {what} {own!r}, but {where} has {other!r}: {REMEDY}")


def going_on(saved: SavedState, clock: Clock) -> Clock:
    """Return the clock of the run before, into whose units times of this one can be converted; else this one's."""
    alike = same_calendar(saved.clock.calendar) == same_calendar(clock.calendar)
    return clock if saved.clock.by_steps or not alike else replace(saved.clock, missing=clock.missing)


def check_field(saved: SavedState, key: str, field: ResultField, where: str) -> None:
    """Check that a field is of the same shape and type."""
    own = saved.fields[key].field
    for what, left, right in (("shape", own.shape, field.shape), ("type", own.dtype, field.dtype)):
        if left != right:
            raise _differs(saved, key, what, left, right, where)
    left, right = ("" if item.map is None else f"{item.map.name} ({item.map.digest})" for item in (own, field))
    if left.rpartition(" ")[2] != right.rpartition(" ")[2]:
        raise _differs(saved, key, "order of the points (decomposition)", left, right, where)


REMEDY = "states go together only if these are equal"


def _check_names(saved: SavedState, names: Mapping[str, object], where: str) -> None:
    if saved.fields.keys() != names.keys():
        odd = sorted(saved.fields.keys() ^ names.keys())[0]
        has, lacks = (str(saved.path), where) if odd in saved.fields else (where, f"the state {saved.path}")
        raise ConfigError(f"operators of {odd} are in {has}, but not in {lacks}: {REMEDY}")


def _check_meaning(saved: SavedState, key: str, own: Mapping[str, str], where: str) -> None:
    there = saved.fields[key].meaning
    for part in [*own, *there]:
        if there.get(part) != own.get(part) and part not in NAMES.values():
            names = NAMES.get(part, part)
            told = names if there.get(names) != own.get(names) else part
            raise _differs(saved, key, part, there.get(told), own.get(told), where)


def _differs(saved: SavedState, key: str, what: str, left: object, right: object, where: str) -> ConfigError:
    return ConfigError(
        f"{key}: {what}: the state {saved.path} has {left or 'nothing'}, but {where} has {right or 'nothing'}: {REMEDY}"
    )


def check_continued(config: Config, path: Path) -> SavedState:
    """Read a state and see that a configuration can continue from it.

    Raises
    ------
    ConfigError
        If not.
    DamagedError
        If it is damaged.
    """
    saved = read_state(path)
    check_diagnostics(saved, config.diagnostics)
    has_bounds = f"{config.time.attribute or config.time.variable}/bounds" in saved.attributes
    if not has_bounds and TIME in {item.weights for item in config.diagnostics.values()}:
        check_guessed(saved.timeline.numbers, str(saved.path))
    if saved.runs > 1:
        for item in config.diagnostics.values():
            if item.each or item.transforms:
                raise ConfigError(
                    f"{saved.path} is merged of {saved.runs} runs: {item.name} can't continue from it, since 'each' "
                    "and transforms continue from the last steps of one run"
                )
    if (config.output / "raw.zarr").exists() and config.raw.wanted:
        raise ConfigError(
            f"{config.output / 'raw.zarr'} is there from an earlier run, and the steps' numbers start over: give "
            "another output, or set raw: none"
        )
    for function in config.functions:
        if function.of and (config.output / FUNCTIONS_DIRECTORY / f"{function.name}.zarr").exists():
            raise ConfigError(
                f"function {function.name} was called with steps of an earlier run, and their numbers start over: give "
                "another output"
            )
    return saved
