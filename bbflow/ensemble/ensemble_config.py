"""Reading an ensemble's configuration, which is checked in full before anything starts."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bbflow.configuring.config import parse_config
from bbflow.ensemble.ensemble_settings import (
    STANDARD_ERROR,
    STEP,
    AcrossField,
    EnsembleAnalysis,
    EnsembleConfig,
    ScoresConfig,
    StatesConfig,
)
from bbflow.ensemble.members import NAME, read_members, read_starts
from bbflow.ensemble.sobol import PickFreeze
from bbflow.errors import ConfigError
from bbflow.functions import check_arguments
from bbflow.operators.filter import Filter
from bbflow.operators.operator import Operator
from bbflow.operators.own.origin import Origin, look_in, origin_of, reading
from bbflow.operators.parse import parse_operators
from bbflow.operators.space.making import MADE
from bbflow.operators.space.parse_spaces import parse_space
from bbflow.operators.space.space import Space
from bbflow.operators.statistics.basic import SPREAD, std
from bbflow.operators.statistics.weighting import weighted_by_member
from bbflow.operators.steps import Array, Views
from bbflow.operators.windows.parse_windows import parse_windows
from bbflow.operators.windows.spans import Run, StepsSpan
from bbflow.operators.windows.window import Window
from bbflow.reading.sections import as_list, flag, number, one_of, positive, read_section, text
from bbflow.reading.yaml_files import read_yaml
from bbflow.units import parse_bytes, parse_path

STEP_WINDOW = {"steps": {"count": 1, "name": STEP}}
"""The window of a member's steps themselves."""
ONE_VALUE = "max"
"""What a member's analysis takes of a span that has one value: the value, in its own type."""
SAMPLES = ("std", "var", "covariance")
"""Operators that divide by n - 1 unless the configuration says otherwise: members are a sample."""
ORDERED = frozenset(
    ("first", "last", "instant", "argmin", "argmax", "trend", "detrended_std", "detrended_var", "harmonics",
     "longest_spell", "spell_count", "spell_steps")
)  # fmt: skip
"""Operators that depend on the order, or the times, of what they fold."""
SOBOL = "sobol"
"""What stands among the operators for Sobol' indices."""
NOT_HERE = ("functions", "publication", "netcdf", "copy_to", "work", "continue", "results", "fold")
"""Keys of a run's configuration that an ensemble's can't have."""


def is_ensemble(path: Path) -> bool:
    """Whether a configuration file is an ensemble's.

    Raises
    ------
    ConfigError
        If it can't be read.
    """
    content = read_yaml(path)
    return isinstance(content, Mapping) and "ensemble" in content


def load_ensemble(path: Path) -> EnsembleAnalysis:
    """Read an ensemble's configuration file.

    Raises
    ------
    ConfigError
        If it can't be read, or anything in it is wrong; the message names the key.
    """
    content = read_yaml(path)
    directory = str(path.resolve().parent)
    look_in(directory)
    try:
        with reading(directory):
            return parse_ensemble(content)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def parse_ensemble(content: Any) -> EnsembleAnalysis:
    """Check an ensemble's configuration in the form of YAML's dicts, lists and scalars.

    Raises
    ------
    ConfigError
        If a key is unknown or missing, or a value is wrong.
    """
    if not isinstance(content, Mapping) or "ensemble" not in content:
        raise ConfigError("the key 'ensemble' is missing: say which members there are, as in ensemble: {members: 50}")
    for key in NOT_HERE:
        if key in content:
            raise ConfigError(f"an ensemble's configuration has no key {key!r}: take it out")
    config = _parse_section(content["ensemble"])
    rest = {key: value for key, value in content.items() if key not in ("ensemble", "windows")}
    operators = rest.get("operators")
    if not isinstance(operators, Mapping) or not operators:
        raise ConfigError("the key 'operators' is missing: say what is computed across members, by variable")
    fields, inner = [], dict[str, Any]()
    for key, chosen in operators.items():
        try:
            parts = dict(chosen) if isinstance(chosen, Mapping) else {"operators": chosen}
            found, own = _field(str(key), parts, content.get("windows"), config)
        except ConfigError as error:
            raise ConfigError(f"operators of {key}: {error}") from None
        fields += found
        inner |= own
    member = parse_config({**rest, "operators": inner, "windows": [STEP_WINDOW]})
    config = replace(config, name=config.name or member.stream)
    _check_times(fields)
    return EnsembleAnalysis(config, member, tuple(fields))


def _parse_section(content: Any) -> EnsembleConfig:
    config: Any = read_section(
        EnsembleConfig,
        content,
        "ensemble",
        name=text,
        members=read_members,
        starts=read_starts,
        decide=_decide,
        sobol=lambda value: tuple(map(text, as_list(value, "sobol"))),
        on_failure=one_of("wait", "lost"),
        lost_after_s=number,
        late=one_of("refuse", "amend"),
        lost=one_of("stays", "out"),
        show=positive,
        states=lambda value: read_section(
            StatesConfig, value, "ensemble: states", capacity=parse_bytes, directory=parse_path
        ),
        keep=flag,
        truth=text,
    )
    names, weights = config.members
    config = replace(config, members=names, weights=weights)
    if config.sobol is not None:
        config = replace(config, sobol=_design(config.sobol, names))
    if config.truth in config.members:
        raise ConfigError(f"ensemble: truth: {config.truth!r} is one of the members: give the truth another name")
    if config.lost == "out" and not config.keep:
        raise ConfigError(
            "ensemble: lost: out: what a lost member gave can't be taken out of extremes or percentiles, so all is "
            "folded again without it, for which members' fields must be there: add keep: true"
        )
    if config.show is not None and config.show > len(config.members):
        raise ConfigError(f"ensemble: show: {config.show} is more than the {len(config.members)} members")
    checked: EnsembleConfig = config
    return checked


def _decide(value: Any) -> Origin:
    origin = origin_of(text(value))
    check_arguments(origin, {})
    return origin


def _design(parameters: tuple[str, ...], members: tuple[str, ...]) -> PickFreeze:
    design = PickFreeze(parameters, members)
    if len({*parameters}) < len(parameters) or len(members) % design.size:
        raise ConfigError(
            f"ensemble: sobol: {len(parameters)} parameters, each once, need groups of {design.size} members: A, B, "
            f"and one for each parameter; {len(members)} members aren't whole groups"
        )
    return design


def _field(
    key: str, parts: dict[str, Any], windows: Any, ensemble: EnsembleConfig
) -> tuple[list[AcrossField], dict[str, Any]]:
    """Read a diagnostic: what is computed across members, and the entries of the members' own configuration."""
    items = as_list(parts.pop("operators", []), "operators")
    has_indices = SOBOL in items
    operators = _operators([item for item in items if item != SOBOL], ensemble) if items != [SOBOL] else ()
    scores = _scores(parts.pop("scores"), ensemble) if "scores" in parts else None
    own = parts.pop("windows", windows)
    inner = _inner_window(parts.get("each"))
    (window,) = parse_windows([inner])
    entry = {"operators": [ONE_VALUE], "windows": [inner]}
    inside, others = {key: {**parts, **entry}}, dict[str, str]()
    alike: dict[str, Any] = {name: parts[name] for name in ("space", "transforms", "each") if name in parts}
    for at, expression in enumerate(dict.fromkeys(own for item in operators for own in item.inputs)):
        name = f"{key}_with{at or ''}"
        inside[name] = {**alike, "of": expression, **entry}
        others[expression] = f"{name}_{window.name}_{ONE_VALUE}"
    across = (window,) if own is None else parse_windows(as_list(own, "windows"))
    of_each_time = {"scores": scores is not None, "Sobol' indices": has_indices}
    _check_across(across, window, [what for what, is_chosen in of_each_time.items() if is_chosen], ensemble)
    result = f"{key}_{window.name}_{ONE_VALUE}"
    found = []
    if operators or scores:
        is_mean = inner is not STEP_WINDOW and _inner_operator(parts["each"]) == "mean"
        found.append(AcrossField(key, key, result, window, across, operators, others, scores, is_mean))
    if has_indices:
        if ensemble.sobol is None:
            raise ConfigError("sobol: say in 'ensemble' which parameters the members' design has: sobol: [a, b]")
        indices = ensemble.sobol.operators()
        found.append(AcrossField(f"{key} sobol", key, result, window, across, indices, {}, design=ensemble.sobol))
    return found, inside


def _check_across(across: Sequence[Window], own: Window, of_each_time: Sequence[str], ensemble: EnsembleConfig) -> None:
    """Check that what is computed across members can be had over the windows that are named."""
    for item in across:
        if item.keeps != 1 or (isinstance(item.spans, StepsSpan) and item != own):
            raise ConfigError(
                f"windows: {item.name} can't be had over members and times: take spans of the calendar, such as month, "
                "or run; without windows each time is by itself"
            )
    for what in of_each_time:
        if any(item != own for item in across):
            raise ConfigError(f"{what} are of each time: take 'windows' out, or put the {what} under another name")
    calendar = [item.name for item in across if item != own and not isinstance(item.spans, Run)]
    if ensemble.starts and calendar:
        raise ConfigError(
            f"windows: {calendar[0]} isn't the same span of all starts: take each: {{{calendar[0]}: mean}}, or run"
        )


def _scores(content: Any, ensemble: EnsembleConfig) -> ScoresConfig:
    read = read_section(
        ScoresConfig,
        content,
        "scores",
        reference=parse_path,
        variable=text,
        remap=one_of(*MADE),
        regions=_regions,
        crps=flag,
        quantiles=positive,
        maps=flag,
        above=lambda value: tuple(float(number(item)) for item in (value if isinstance(value, list) else [value])),
        bins=positive,
        climatology=parse_path,
    )
    if ensemble.weights:
        raise ConfigError("scores take all members alike: give 'members' without weights")
    if read.reference is None and ensemble.truth is None:
        raise ConfigError("scores: there is no 'reference', and 'ensemble' names no 'truth': give one of them")
    if read.quantiles and not read.crps:
        raise ConfigError("scores: quantiles are for the CRPS, which crps: false leaves out: take one of them out")
    if read.remap and read.reference is None:
        raise ConfigError("scores: remap is for a 'reference': the truth is on the members' grid")
    wanted: list[Any] = ["mean", {"var": {"ddof": 1}}]
    if read.quantiles:
        q = [100 * (at + 0.5) / read.quantiles for at in range(read.quantiles)]
        error, most = 50 / read.quantiles, max(len(ensemble.members), 2)
        wanted += ["min", "max", {"percentiles": {"q": q, "error": error, "steps": most, "bound": True}}]
    made = parse_operators(wanted)
    events = {limit: parse_operators([{"exceedance": {"above": limit}}])[0] for limit in read.above}
    return replace(
        read,
        members=len(ensemble.members),
        operators={item.name: item for item in made if isinstance(item, Operator)},
        events={limit: item for limit, item in events.items() if isinstance(item, Operator)},
    )


def _regions(value: Any) -> dict[str, Space]:
    """Read names of regions and what they select, such as {tropics: {lat: [-30, 30]}}."""
    if not isinstance(value, Mapping) or not value:
        raise ConfigError(f"{value!r} isn't a map of names to regions, such as {{tropics: {{lat: [-30, 30]}}}}")
    found = {}
    for name, limits in value.items():
        if not NAME.fullmatch(str(name)):
            raise ConfigError(f"regions: {name!r} must be a word of letters, digits, _ and -: a group is called so")
        try:
            found[str(name)] = parse_space({"box": limits})
        except ConfigError as error:
            raise ConfigError(f"regions: {name}: {error}") from None
    return found


def _inner_window(each: Any) -> Any:
    if each is None:
        return STEP_WINDOW
    if isinstance(each, Mapping) and set(each) == {"window", "operator"}:
        return each["window"]
    if isinstance(each, Mapping) and len(each) == 1:
        return next(iter(each))
    raise ConfigError(f"each: {each!r} is not a map of a window to an operator, such as {{day: max}}")


def _inner_operator(each: Mapping[str, Any]) -> Any:
    """Return the statistics of each span, as `_inner_window` has read them."""
    return each["operator"] if "operator" in each else next(iter(each.values()))


def _operators(items: list[Any], ensemble: EnsembleConfig) -> tuple[Operator, ...]:
    chosen, members, own = [], len(ensemble.members), list[Operator]()
    for item in items:
        name = next(iter(item)) if isinstance(item, Mapping) and len(item) == 1 else item
        given = dict(item[name] or {}) if isinstance(item, Mapping) and name in item else {}
        if name in SAMPLES and not ensemble.weights:
            given.setdefault("ddof", 1)
        if name in ("percentiles", "median"):
            given.setdefault("steps", max(members, 2))
        if item == STANDARD_ERROR:
            own.append(
                Operator(STANDARD_ERROR, SPREAD, standard_error, "standard_deviation", "standard error of the mean")
            )
            continue
        if name in ORDERED:
            raise ConfigError(f"{name!r} means nothing across members, which have no order")
        chosen.append({name: given} if given else item)
    operators = (*(parse_operators(chosen) if chosen or not own else ()), *own)
    for operator in operators:
        if not isinstance(operator, Filter) and operator.family.gathers:
            raise ConfigError(
                f"{operator.name!r} takes one member's whole fields: give it to that member's own analysis"
            )
        if isinstance(operator, Filter) or not operator.family.commutes or operator.family.dates:
            raise ConfigError(f"{operator.name!r} means nothing across members, which have no order")
        if operator.is_users:
            raise ConfigError(f"{operator.name!r} is an operator of your own, which can't be taken across members yet")
    found = tuple(item for item in operators if isinstance(item, Operator))
    return tuple(weighted_by_member(item) for item in found) if ensemble.weights else found


def standard_error(views: Views) -> Array:
    """Return the standard deviation of the mean: that of members, with n - 1, over the root of n."""
    found: Array = std(views, ddof=1) / np.sqrt(views["count"])
    return found


def _check_times(fields: list[AcrossField]) -> None:
    """Check that windows of one name are one, and no two results have one name."""
    known: dict[str, Window] = {}
    inner: dict[str, Window] = {}
    names: set[str] = set()
    for item in fields:
        for window in (item.inner, *item.windows):
            if known.setdefault(window.name, window) != window:
                raise ConfigError(f"operators of {item.key}: the window {window.name} is cut differently elsewhere")
        for window in item.windows:
            if inner.setdefault(window.name, item.inner) != item.inner:
                raise ConfigError(
                    f"operators of {item.key}: {window.name} is made of each {item.inner.name} here, but of each "
                    f"{inner[window.name].name} elsewhere: give one of the windows another 'name'"
                )
            for operator in item.operators:
                name = f"{item.name}_{window.name}_{operator.name}"
                if name in names:
                    raise ConfigError(f"operators of {item.key}: the result {name} is given twice: take one out")
                names.add(name)
