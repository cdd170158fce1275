"""The key `fold`: who folds, the nodes or the ranks themselves, and what the latter can't."""

import math
from collections.abc import Iterator
from typing import Any

from bbflow.configuring.settings import Config, FoldConfig, LandingLimit
from bbflow.errors import ConfigError
from bbflow.operators.diagnostic import Diagnostic
from bbflow.operators.family import Family
from bbflow.operators.statistics.bins import Bins
from bbflow.operators.statistics.moments import Moments
from bbflow.reading.sections import one_of, positive, read_section
from bbflow.units import parse_bytes, parse_seconds

MOST_TOGETHER = 1024
ONLY_ON = {"land_states_every": ("rank", "device"), "device_memory": ("device",)}
"""Keys that count with some values of `on` only."""


def parse_fold(content: Any) -> FoldConfig:
    """Check the configuration's key 'fold'.

    Raises
    ------
    ConfigError
        If a key is unknown, or does nothing there, or a value is wrong.
    """
    on = one_of("node", "rank", "device")
    fold = read_section(FoldConfig, content, "fold", on=on, land_states_every=_together, device_memory=parse_bytes)
    if unused := [key for key, own in ONLY_ON.items() if key in (content or ()) and fold.on not in own]:
        wanted = " or ".join(ONLY_ON[unused[0]])
        raise ConfigError(f"fold: {unused[0]} does nothing with on: {fold.on}: take it out, or set on: {wanted}")
    return fold


def _together(value: Any) -> LandingLimit:
    """Read how many steps may land together: one message tells of all, and a rank keeps their single values."""
    if isinstance(value, str) and value.strip().endswith("s"):
        return LandingLimit(MOST_TOGETHER, positive_seconds(value))
    number = positive(value)
    if number > MOST_TOGETHER:
        raise ConfigError(f"{number} steps are more than may land together ({MOST_TOGETHER})")
    return LandingLimit(number)


def positive_seconds(value: str) -> float:
    """Read a time above 0, such as 30 s, in seconds."""
    if not 0 < (seconds := parse_seconds(value.strip().removesuffix("s"))) < math.inf:
        raise ConfigError(f"{value!r} is no time above 0")
    return seconds


def check_on_ranks(config: Config) -> None:
    """Check that ranks can fold all that is asked for.

    Raises
    ------
    ConfigError
        If something needs the steps themselves, which don't land.
    """
    on = config.fold.on
    if on != "node" and (why := next(_needs_steps(config), None)):
        raise ConfigError(f"fold: on: {on}: {why}: take that out, or leave the fold on the nodes (fold: on: node)")


def _needs_steps(config: Config) -> Iterator[str]:
    """Yield what needs steps as the program writes them."""
    if config.raw.wanted:
        yield "raw: keeps steps, which don't land then"
    yield from (
        f"functions: {item.name}: is called with steps, which don't land then" for item in config.functions if item.of
    )
    if config.time.attribute is not None or config.time.by == "file":
        yield "time: is told by an attribute or a file's name, which ranks don't look at"
    yield from (why for item in config.diagnostics.values() if (why := needs_blocks(item)))
    edges: dict[str, tuple[float, ...]] = {}
    for item in config.diagnostics.values():
        name = item.of.variables[0]
        for own in (family for operator in item.operators for family in operator.families if isinstance(family, Bins)):
            if edges.setdefault(name, own.edges) != own.edges:
                yield f"operators of {item.name}: ranks fold histograms of {name} with the same edges alone"


def needs_blocks(diagnostic: Diagnostic) -> str:
    """Return why ranks can't fold the blocks of a diagnostic; an empty text if they can."""
    own = diagnostic
    if own.is_of_means:
        return ""
    if own.space and own.space.is_linear and not own.takes_means:
        return f"operators of {own.name}: ranks fold mean, sum and count alone of what is remapped or averaged in space"
    parts = {
        "weights": own.weights, "space": own.space, "transforms": own.transforms, "each": own.each, "then": own.then,
        "filters": own.filters, "further inputs": own.others, "an expression": not own.of.is_plain or own.fields,
        "skipna: false": not all(operator.skipna for operator in own.operators),
    }  # fmt: skip
    if asked := [name for name, part in parts.items() if part]:
        return f"operators of {own.name}: ranks fold variables as they are, without {asked[0]}"
    for operator in own.operators:
        if not all(isinstance(family, Bins) or _is_moments(family) for family in operator.families):
            return f"operators of {own.name}: {operator.name} isn't made of moments, extremes and given bins alone"
    return ""


def _is_moments(family: Family) -> bool:
    return isinstance(family, Moments) and not family.is_weighted
