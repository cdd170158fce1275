"""Names that people know from CDO, xarray, ETCCDI and xclim, read into the configuration's own terms."""

from collections.abc import Container, Mapping
from dataclasses import replace
from typing import Any

from bbflow.errors import ConfigError, nearest
from bbflow.operators.names.cdo import cdo_names
from bbflow.operators.names.indices import index_names, xclim_names
from bbflow.operators.names.meaning import Meaning, Name
from bbflow.operators.names.xarray_calls import xarray_names
from bbflow.operators.space.moves import NAMES as SPACES

ORIGINS: Mapping[str, Mapping[str, Name]] = {
    "CDO": {name.name: name for name in cdo_names()},
    "xarray": {name.name: name for name in xarray_names()},
    "ETCCDI": {name.name: name for name in index_names()},
    "xclim": {name.name: name for name in xclim_names()},
}
"""By where they come from, and by name."""
NAMES: Mapping[str, Name] = {name: item for names in ORIGINS.values() for name, item in names.items()}
"""All of them."""


def is_name(item: Any, own: Container[str]) -> bool:
    """Whether an item of the configuration's operators is a name of another's, and none of `own`."""
    word = _word(item)
    return word not in own and word in NAMES


def meaning(item: Any) -> Meaning:
    """Return the meaning of an item.

    Parameters
    ----------
    item
        Such as ``monmean``, ``"timpctl,90"``, ``{runmean: 5}``, ``{runmean: {steps: 5, min_count: 3}}`` or
        ``{resample: MS}``.

    Raises
    ------
    ConfigError
        If the name is unknown, or what follows it is wrong.
    """
    word = _word(item)
    if word not in NAMES:
        raise ConfigError(f"unknown name {word!r}; {nearest(word, NAMES)}")
    name = NAMES[word]
    given, further = _given(name, item)
    if not len(name.takes) <= len(given) <= len(name.takes) + len(name.may_take):
        wanted = ", ".join(name.takes) or "nothing"
        quoted = ", with quotes around it in a list, where commas separate" if "," in name.example else ""
        hint = SPACES[word].hint if word in SPACES else ""
        raise ConfigError(
            f"{word!r} takes {wanted}, but got {len(given)} values: write it like {name.example}{quoted}{hint}"
        )
    try:
        return _with_parameters(name.make(*given), further)
    except ConfigError as error:
        raise ConfigError(f"{word!r}: {error}") from None


def _with_parameters(means: Meaning, further: Mapping[str, Any]) -> Meaning:
    """Hand on what a name's map says besides what the name takes: it's for the operator, such as min_count."""
    if not further:
        return means
    if means.operator is None:
        raise ConfigError(f"it has no operator, so nothing takes {', '.join(map(str, further))}")
    operator, parameters = (
        next(iter(means.operator.items())) if isinstance(means.operator, Mapping) else (means.operator, {})
    )
    return replace(means, operator={operator: {**parameters, **further}})


def _word(item: Any) -> str:
    if isinstance(item, Mapping) and len(item) == 1:
        return str(next(iter(item)))
    return str(item).partition(",")[0].strip()


def _given(name: Name, item: Any) -> tuple[list[Any], dict[str, Any]]:
    """Return what follows a name, and the parameters that it doesn't take itself."""
    if not isinstance(item, Mapping):
        return [part.strip() for part in str(item).split(",")[1:]], {}
    (value,) = item.values()
    if value is None:
        return [], {}
    if isinstance(value, Mapping) and not name.one_value:
        own = [value[key] for key in name.takes if key in value]
        return own, {key: item for key, item in value.items() if key not in name.takes}
    return (list(value) if isinstance(value, list | tuple) and not name.one_value else [value]), {}


def expand(chosen: Mapping[str, Any], own: Container[str]) -> list[dict[str, Any]]:
    """Write a diagnostic with known names in the configuration's own terms.

    A name with an operator, such as monmean, has its own window, and stands apart from the other operators: each
    such window makes a diagnostic. A name without one, such as fldmean or ``resample: MS``, holds for all of them.

    Parameters
    ----------
    chosen
        A diagnostic's keys, `operators` among them.
    own
        Names of our own operators; they come first where others know the name too.

    Returns
    -------
    list of dict
        Diagnostics whose operators are all our own.

    Raises
    ------
    ConfigError
        If a name is used wrongly, or two say different things of one part.
    """
    shared = {key: value for key, value in chosen.items() if key != "operators"}
    windows: list[Any] = []
    apart: list[tuple[dict[str, Any], list[Any]]] = []
    for item in _as_list(chosen.get("operators")):
        if item is None:
            raise ConfigError("an operator is empty: write its name, or take its line out")
        means = meaning(item) if is_name(item, own) else Meaning(item)
        if means.operator is not None:
            _operators_of(means, apart).append(means.operator)
            continue
        parts = means.parts
        windows += parts.pop("windows", [])
        shared = _joined(shared, parts, item)
    shared |= {"windows": windows} if windows else {}
    if not apart:
        return [shared | {"operators": []}]
    return [_joined(shared, parts, operators[0]) | {"operators": operators} for parts, operators in apart]


def _operators_of(means: Meaning, apart: list[tuple[dict[str, Any], list[Any]]]) -> list[Any]:
    for parts, operators in apart:
        if parts == means.parts:
            return operators
    apart.append((means.parts, []))
    return apart[-1][1]


def _joined(shared: Mapping[str, Any], parts: Mapping[str, Any], item: Any) -> dict[str, Any]:
    """Join parts: windows replace those that hold for all, transforms follow the others, the rest is said once."""
    joined = {**shared, **parts}
    if "transforms" in parts:
        joined["transforms"] = [*_as_list(shared.get("transforms")), *parts["transforms"]]
    for key in ("attributes", "fields"):
        if key in parts:
            joined[key] = {**parts[key], **shared.get(key, {})}
    for key in ("space", "each", "then", "weights"):
        if key in shared and key in parts:
            both = ", or write both as a list under 'space', in their order" if key == "space" else ""
            raise ConfigError(
                f"{item!r} says {key}: {parts[key]!r}, but it is {shared[key]!r} already: take one out{both}"
            )
    return joined


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [] if value is None else [value]
