"""Diagnostics as the configuration writes them."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from bbflow.errors import ConfigError
from bbflow.operators.catalogue import OwnNames
from bbflow.operators.diagnostic import VALUE, Diagnostic, Each
from bbflow.operators.expressions import Expression, of_variable, paired, parse_expression
from bbflow.operators.file_fields import AREA_SHARE, AreaField, BesideSteps, DateField, parse_fields
from bbflow.operators.filter import Filter
from bbflow.operators.names.elsewhere import check_elsewhere
from bbflow.operators.names.known import expand
from bbflow.operators.operator import Operator
from bbflow.operators.parse import FILTER, parse_operators
from bbflow.operators.space.moves import Gather
from bbflow.operators.space.parse_spaces import KEYS as SPACE_KEYS
from bbflow.operators.space.parse_spaces import REMAP_KEYS, parse_space
from bbflow.operators.space.space import Space
from bbflow.operators.statistics.weighting import STEPS, WEIGHTS, weighted
from bbflow.operators.transforms import parse_transforms
from bbflow.operators.windows.parse_windows import parse_windows
from bbflow.operators.windows.spans import Hours, Run
from bbflow.operators.windows.window import Window
from bbflow.reading.sections import as_list, check_keys, one_of
from bbflow.zarr_store.stored_names import stored_name

OF_SPACE = {
    **{
        key: f"it belongs into 'space', inside a remap, as remapcon: {{weights: weights.nc, {key}: …}}"
        for key in REMAP_KEYS
    },
    **{key: f"it belongs into 'space', as space: {{{key}: …}}" for key in SPACE_KEYS},
}
"""Keys that belong to a part of it."""
KEYS = (
    "of",
    "space",
    "transforms",
    "each",
    "then",
    "operators",
    "windows",
    "attributes",
    "absent",
    "weights",
    "fields",
)


def parse_diagnostics(content: Any, windows: list[Any]) -> dict[str, Diagnostic]:
    """Make diagnostics of the configuration's map of names to operators.

    Parameters
    ----------
    content
        Name to a list of operators, or to a map of `KEYS`.
    windows
        Those that hold where a diagnostic names none.

    Raises
    ------
    ConfigError
        If anything in it is wrong; the message names the diagnostic.
    """
    if not isinstance(content, Mapping):
        raise ConfigError("'operators' must be a map from variable to a list of operators")
    diagnostics: dict[str, Diagnostic] = {}
    for name, chosen in content.items():
        if isinstance(name, bool):
            raise ConfigError(f"operators: {name} isn't a variable's name: quote it")
        parts = chosen if isinstance(chosen, Mapping) else {"operators": chosen}
        try:
            check_keys(parts, KEYS, elsewhere=OF_SPACE)
            for number, part in enumerate(expand(parts, OwnNames(FILTER))):
                key = str(name) if number == 0 else f"{name}_{number + 1}"
                if key in diagnostics:
                    raise ConfigError(f"{key!r} is a name that its parts need too: call the other one differently")
                diagnostics[key] = _parse(key, str(name), part, windows)
        except ConfigError as error:
            raise ConfigError(f"operators of {name}: {error}") from None
    _check_windows(diagnostics.values())
    _check_results(diagnostics.values())
    return diagnostics


def _check_windows(diagnostics: Iterable[Diagnostic]) -> None:
    """Check that windows of one name are the same: their results share an axis."""
    known: dict[str, Window] = {}
    for item in diagnostics:
        for window in (*item.windows, *item.inner_windows):
            if known.setdefault(window.name, window) != window:
                raise ConfigError(
                    f"operators of {item.name}: the window {window.name} is cut differently elsewhere: let all of "
                    "that name have the same parameters"
                )


def _check_results(diagnostics: Iterable[Diagnostic]) -> None:
    """Check that no two things in the results have one name."""
    taken: dict[str, Any] = {}
    for item in diagnostics:
        for name, what in _written(item):
            if taken.setdefault(stored_name(name), what) != what:
                raise ConfigError(
                    f"operators of {item.name}: the result {name} is given twice, or something else in the results has "
                    "its name: take one out, or give it a 'name'"
                )


def _written(item: Diagnostic) -> Iterator[tuple[str, Any]]:
    """Yield the names of what a diagnostic puts into the results, each with what is the same if others put it there."""
    for window in item.windows:
        names = (f"{begin}_{window.name}" for begin in ("time", "steps", "missing"))
        yield from ((name, window) for name in (*names, f"time_{window.name}_bnds"))
        for operator in item.operators:
            yield f"{item.name}_{window.name}_{operator.name}", (item.key, window.name, operator.name)
    for operator in item.operators:
        for axis in operator.axes:
            named = f"{item.name}_{operator.name}_{axis.name}"
            yield from ((name, axis) for name in (named, f"{named}_bnds"))
    yield from ((f"{item.name}_{table.name}", (item.key, table.name)) for table in item.filters)


def _parse(key: str, name: str, parts: Mapping[str, Any], windows: list[Any]) -> Diagnostic:
    items = as_list(parts.get("operators"), "operators")
    if not items and "space" in parts:
        raise ConfigError("a space says what becomes of each step: add an operator over time, such as mean")
    operators = parse_operators(items)
    filters = tuple(item for item in operators if isinstance(item, Filter))
    weights = _parse_weights(parts)
    each = _parse_each(parts["each"]) if "each" in parts else None
    chosen = [item for item in operators if isinstance(item, Operator)]
    spans = parse_windows(as_list(parts.get("windows", windows), "windows"))
    fields = _parse_fields(_with_dates(parts.get("fields", {}), chosen, each), _sides(each, spans))
    of = parse_expression(str(parts["of"])) if "of" in parts else of_variable(name)
    space = _parse_space(parts["space"]) if "space" in parts else None
    if gathering := {item.family.gathers for item in chosen} - {""}:
        space, fields = _gathered(gathering, space), {**fields, AREA_SHARE: AreaField()}
    if space is not None and space.other is not None:
        if inputs := [text for item in chosen for text in item.inputs]:
            raise ConfigError(f"with: {inputs[0]}: the space takes two fields already: put it under another name")
        of = paired(of, space.other)
    diagnostic = Diagnostic(
        key,
        name,
        of,
        space,
        parse_transforms(as_list(parts.get("transforms", []), "transforms")),
        each,
        _parse_then(parts["then"], fields) if "then" in parts else None,
        tuple(weighted(item, weights) for item in chosen),
        filters,
        spans,
        _parse_attributes(parts.get("attributes", {})),
        _parse_absent(parts.get("absent", "error")),
        parts.get("units"),
        "" if weights == STEPS else weights,
        is_told="weights" in parts or "each" in parts,
        fields=fields,
    )
    _check_fields(diagnostic)
    _check_operators(diagnostic)
    return diagnostic


def _gathered(weights: Collection[str], space: Space | None) -> Space:
    """Return a space whose points operators gather, with the weights by which they count."""
    if len(weights) > 1:
        raise ConfigError("the points of one field count by one sort of weights: put the other under another name")
    return Space((*(space.moves if space else ()), *map(Gather, weights)))


def _check_operators(diagnostic: Diagnostic) -> None:
    """Check that operators and filters can have the steps that come to them."""
    operators = diagnostic.operators
    whole = [item.name for item in operators if item.family.dates]
    parts_of_run = [window.name for window in diagnostic.windows if not isinstance(window.spans, Run)]
    if whole and parts_of_run:
        raise ConfigError(
            f"{whole[0]} takes all days of its years, not those of each {parts_of_run[0]}: write windows: [run]"
        )
    if diagnostic.filters and diagnostic.each:
        raise ConfigError("a filter keeps single steps, but 'each' makes one of many: put it under another name")
    if diagnostic.each and (of_two := [item for item in operators if item.inputs]):
        raise ConfigError(
            f"{of_two[0].name} takes {of_two[0].inputs[0]!r} of the same steps, but what 'each' makes are steps of one "
            "field: write it within 'each', or take 'each' out"
        )
    dated = [item.name for item in operators if item.dated]
    if dated and diagnostic.space is not None and diagnostic.space.has_pyramid:
        raise ConfigError(f"pyramid: the mean of four dates means nothing: put {', '.join(dated)} under another name")


def _sides(each: Each | None, windows: Iterable[Window]) -> dict[str, str]:
    """Return on which sides spans hold their boundary, and the last window of each.

    Raises
    ------
    ConfigError
        If a step on a boundary would be in one day for `each`, and in the month of another for the windows.
    """
    inner = None if each is None else each.window
    bounded = [window for window in (*windows, *([inner] if inner else [])) if window.has_boundary]
    sides = {window.closed: window.name for window in bounded}
    if inner is not None and inner.has_boundary and len(sides) > 1:
        raise ConfigError(
            f"each: {sides['left']} is closed on the left, but {sides['right']} on the right, so a step on the "
            "boundary would be in spans that don't belong together: say the same 'closed' of both"
        )
    return sides


def _parse_fields(content: Any, sides: Mapping[str, str]) -> dict[str, BesideSteps]:
    """Read `fields`, whose dates and rows are those of the windows that steps are folded into."""
    fields = parse_fields(content, next(iter(sides)) if len(sides) == 1 else "left")
    dated = [name for name, item in fields.items() if item.window is not None and item.window.closed == "left"]
    if dated and len(sides) > 1:
        raise ConfigError(
            f"fields: {dated[0]}: {sides['left']} is closed on the left, but {sides['right']} on the right, so a "
            "step on the boundary would have two dates: say the same 'closed' of both"
        )
    return fields


def _parse_space(item: Any) -> Space:
    for part in item if isinstance(item, list | tuple) else [item]:
        word = str(part).partition(",")[0].strip()
        if word not in SPACE_KEYS:
            check_elsewhere(word, "a space")
    return parse_space(item)


def _with_dates(fields: Any, operators: Iterable[Operator], each: Each | None) -> Any:
    """Add the parts of the date that operators need, of which each has one value for each day."""
    dates = {name: {"calendar": name} for item in operators for name in item.family.dates}
    if not dates:
        return fields
    if each is None or each.window.spans != Hours(24) or each.window.recurs:
        raise ConfigError("statistics of whole years' days need one value for each day: each: {day: mean}, or max")
    if taken := [name for name in dates if name in fields and fields[name] != dates[name]]:
        raise ConfigError(f"fields: {taken[0]!r} is that of the date here: call yours otherwise")
    return {**fields, **dates}


def _parse_weights(parts: Mapping[str, Any]) -> str:
    """Read what steps are weighted by; empty if nothing says it."""
    weights = str(one_of(*WEIGHTS)(parts["weights"])) if "weights" in parts else ""
    if weights not in ("", STEPS) and "each" in parts:
        raise ConfigError(f"weights: {weights}: what 'each' makes has no length of its own: take one of them out")
    return weights


def _parse_each(item: Any) -> Each:
    """Read a map of one window to one operator, such as ``{day: max}``, or of `window` and `operator`."""
    if isinstance(item, Mapping) and set(item) == {"window", "operator"}:
        window, operator = item["window"], item["operator"]
    elif isinstance(item, Mapping) and len(item) == 1:
        ((window, operator),) = item.items()
    else:
        raise ConfigError(f"each: {item!r} is not a map of a window to an operator, such as {{day: max}}")
    (inner,) = parse_windows([window])
    operators = parse_operators([operator])
    if inner.keeps is None:
        raise ConfigError(f"each: {inner.name} is a climatology, which has no result before the run's end")
    if (
        len(operators) != 1
        or not isinstance(operators[0], Operator)
        or operators[0].axes
        or operators[0].family.gathers
    ):
        raise ConfigError(f"each: {operator!r} must give one number for each point")
    return Each(inner, operators[0])


def _parse_then(text: Any, fields: Mapping[str, BesideSteps]) -> Expression:
    expression = parse_expression(str(text))
    for name in expression.variables:
        if name != VALUE and name not in fields:
            raise ConfigError(
                f"then: {name!r} is not known here, only {VALUE!r}, what came out of the parts before, and what "
                "'fields' names"
            )
    if VALUE not in expression.variables:
        raise ConfigError(f"then: {text!r} has no {VALUE!r} in it: what came out of the parts before")
    return expression


def _check_fields(diagnostic: Diagnostic) -> None:
    """Check that each field is used, and beside something of the stream."""
    used = diagnostic.fields_of_steps.keys() | diagnostic.fields_after.keys()
    for name in diagnostic.fields:
        if name not in used:
            raise ConfigError(f"fields: {name!r} is in no expression, neither of 'of' nor of 'then'")
    for name, item in diagnostic.fields_after.items():
        if isinstance(item, DateField) and item.window is None:
            raise ConfigError(
                f"fields: {name!r} is the time of a step, which 'of' may have, but not what comes after it"
            )
    if VALUE in diagnostic.fields:
        raise ConfigError(f"fields: {VALUE!r} is what came out of the parts before: call it otherwise")
    if not set(diagnostic.of.variables) - diagnostic.fields.keys():
        raise ConfigError(f"{diagnostic.of.text!r} has no variable of the stream in it, but fields of files only")


def _parse_absent(word: Any) -> bool:
    if word not in ("error", "skip"):
        raise ConfigError(f"absent: {word!r} is neither 'error' nor 'skip', which takes steps without it as they come")
    return bool(word == "skip")


def _parse_attributes(content: Any) -> dict[str, Any]:
    if not isinstance(content, Mapping):
        raise ConfigError("attributes must be a map, such as {units: m s-1}")
    return {str(key): value for key, value in content.items()}
