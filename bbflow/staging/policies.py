"""Delay policies: what transfers may do while other applications are in an I/O phase. All of it is pure."""

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, SupportsIndex

from bbflow.errors import ConfigError, nearest
from bbflow.models.interference import Interference
from bbflow.operators.own.origin import origin_of
from bbflow.phases import Phase, Prediction
from bbflow.staging.gate import PAUSE_S, Decision
from bbflow.staging.own import find_own, installed, is_own, remake

MAX_DELAY_S = 600.0
LEAST_PACE_BYTES_PER_S = 64 << 10
"""A pace is never below this: a transfer that stands still forever helps no one."""


@dataclass(frozen=True, slots=True)
class Situation:
    """Everything a policy looks at."""

    now_s: float
    """Seconds since the epoch."""
    phases: tuple[Phase, ...] = ()
    """I/O phases of others that last now."""
    predicted: Prediction | None = None
    """The next one."""
    delayed_s: float = 0.0
    """Seconds since which there has always been a phase, while transfers waited."""
    phase_s: float | None = None
    """How long phases last, by the past ones; None if there was none."""
    remaining_bytes: int = 0
    """What is still to be transferred for the waves that are admitted."""
    deadline_s: float | None = None
    """When the next wave could begin to compute, in seconds since the epoch; None if nothing computes."""
    peak_bytes_per_s: float | None = None
    """Rate of all fetchers together without a phase; None if it isn't known yet."""
    free_share: float = 1.0
    """Share of the recent time outside all phases."""
    model: Interference | None = None
    """Fitted from observed phases; None if there were too few."""


@dataclass(frozen=True)
class Policy(ABC):
    """A delay policy."""

    needs_phases: ClassVar[bool] = True
    """Whether it could never do anything where no phase is seen; False for one that goes by the clock, say."""
    max_delay_s: float = MAX_DELAY_S
    """After this many seconds of phases without a break, transfers continue as if there were none; for a phase that is
    only expected they wait no longer either."""

    def decide(self, situation: Situation) -> Decision:
        """Return what transfers may do now."""
        if situation.phases and situation.delayed_s >= self.max_delay_s:
            return Decision(reason=f"delayed for {self.max_delay_s:g} s, the most that is allowed")
        expected = situation.predicted
        if expected is not None and 2 * expected.tolerance_s > self.max_delay_s:
            # Of phases a day apart the next would be waited for for hours.
            expected = dataclasses.replace(expected, tolerance_s=self.max_delay_s / 2)
            situation = dataclasses.replace(situation, predicted=expected)
        return self.choose(situation)

    @abstractmethod
    def choose(self, situation: Situation) -> Decision:
        """Return what transfers may do, as long as they haven't been delayed too long."""

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        kind = type(self)
        if not is_own(kind):
            return super().__reduce_ex__(protocol)
        # Another process may not find the user's module by its name: the class is loaded from its file there.
        values = {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}
        return remake, (origin_of(f"{kind.__module__}:{kind.__qualname__}"), values)

    def most_fetchers(self, fetchers: int) -> int:
        """Return how many fetchers it may ever use, of a usual number."""
        return fetchers


@dataclass(frozen=True)
class NoAction(Policy):
    """Transfers ignore other applications (Eley, section III-A)."""

    needs_phases: ClassVar[bool] = False

    def choose(self, situation: Situation) -> Decision:
        """Never delay a transfer."""
        return Decision()


@dataclass(frozen=True)
class FullDelay(Policy):
    """Transfers wait until the phase has ended (Eley, section II-B), and end before the next predicted one."""

    confidence: float = 0.6
    """Predictions below it are not used."""

    def choose(self, situation: Situation) -> Decision:
        """Hold in a phase; before a predicted one, let only what ends in time begin."""
        if situation.phases:
            return Decision(hold=True, reason=f"I/O phase of {names(situation)}")
        return before_predicted(situation, self.confidence)


@dataclass(frozen=True)
class PartialDelay(Policy):
    """In a phase, transfers run at a pace that keeps the application's predicted slowdown under a limit.

    Where the next phase is predicted, they go over to that pace before it begins.
    """

    limit: float = 0.05
    """Tolerable slowdown: 0.05 is a phase that lasts 5% longer than alone."""
    confidence: float = 0.6
    """Predictions below it are not used."""

    def choose(self, situation: Situation) -> Decision:
        """Pace in a phase, and when one is about to begin."""
        if situation.phases:
            return paced(situation, self.limit)
        return paced_before_predicted(situation, self.limit, self.confidence)


@dataclass(frozen=True)
class ScaleDown(Policy):
    """In a phase, few fetchers."""

    fetchers: int = 1
    """How many."""

    def choose(self, situation: Situation) -> Decision:
        """Reduce fetchers in a phase."""
        if not situation.phases:
            return Decision()
        return Decision(fetchers=self.fetchers, reason=f"I/O phase of {names(situation)}")


@dataclass(frozen=True)
class ScaleUp(Policy):
    """Between phases more fetchers than usual, to have done before the next; in a phase few."""

    fetchers: int = 16
    """How many between phases."""
    in_phase: int = 1
    """How many in a phase."""

    def choose(self, situation: Situation) -> Decision:
        """Reduce fetchers in a phase, raise them between phases."""
        if situation.phases:
            return Decision(fetchers=self.in_phase, reason=f"I/O phase of {names(situation)}")
        return Decision(fetchers=self.fetchers)

    def most_fetchers(self, fetchers: int) -> int:
        """Return the number between phases, if that is more."""
        return max(self.fetchers, fetchers)


@dataclass(frozen=True)
class Auto(Policy):
    """Picks what costs the application least while the wave keeps its deadline; the limit always holds."""

    limit: float = 0.05
    """Tolerable slowdown of an application's phase."""
    confidence: float = 0.6
    """Predictions below it are not used."""

    def choose(self, situation: Situation) -> Decision:
        """Take no action if others wouldn't feel it, wait if there is time, else continue at a pace under the limit."""
        if not situation.phases:
            if has_time(situation):
                return before_predicted(situation, self.confidence)
            return paced_before_predicted(situation, self.limit, self.confidence)
        peak = situation.peak_bytes_per_s
        if situation.model is not None and peak is not None and situation.model.slowdown(peak) <= self.limit:
            return Decision(reason="the model expects no slowdown above the limit")
        if has_time(situation):
            return Decision(hold=True, reason=f"I/O phase of {names(situation)}, and there is time")
        return paced(situation, self.limit)


def names(situation: Situation) -> str:
    """List the applications that are in a phase."""
    return ", ".join(sorted({phase.application for phase in situation.phases}))


def before_predicted(situation: Situation, confidence: float) -> Decision:
    """Begin nothing that can't end before the next phase; if that doesn't come in time, take no notice."""
    next_one = situation.predicted
    if next_one is None or next_one.confidence < confidence:
        return Decision()
    if situation.now_s > next_one.begins_s + next_one.tolerance_s:
        return Decision()
    return Decision(stop_s=next_one.begins_s - next_one.tolerance_s, reason="a phase is expected")


def paced_before_predicted(situation: Situation, limit: float, confidence: float) -> Decision:
    """Begin what can end before the next phase; when that is due, continue at the pace that it would allow.

    A chunk at full speed that runs into the phase would slow it down by itself.
    """
    decision = before_predicted(situation, confidence)
    if decision.stop_s is None or situation.now_s + PAUSE_S < decision.stop_s:
        return decision
    return paced(situation, limit)


def paced(situation: Situation, limit: float) -> Decision:
    """Pace transfers so that the predicted slowdown stays under a limit.

    Without a fitted model, the capacity is taken to be the transfers' own rate without a phase; without that
    either, the least pace is used.
    """
    model = situation.model or Interference(situation.peak_bytes_per_s or 0.0)
    whose = f"I/O phase of {names(situation)}" if situation.phases else "a phase is expected"
    return Decision(
        bytes_per_s=max(model.pace(limit), LEAST_PACE_BYTES_PER_S),
        fetchers=1,
        reason=f"{whose}: slowdown up to {limit:.0%}",
    )


def has_time(situation: Situation) -> bool:
    """Whether the transfers keep the wave's deadline if they wait in phases: this one, or the next, and later ones."""
    if situation.remaining_bytes == 0:
        return True
    if situation.deadline_s is None or situation.peak_bytes_per_s is None:
        return False
    end_s, rate = phase_end_s(situation), situation.peak_bytes_per_s * situation.free_share
    return end_s is not None and rate > 0 and end_s + situation.remaining_bytes / rate <= situation.deadline_s


def phase_end_s(situation: Situation) -> float | None:
    """Return when the phase is expected to end (without one, the next): seconds since the epoch, None if unknown."""
    if situation.phases:
        if situation.phase_s is None:
            return None
        return max(situation.now_s, *(phase.began_s + situation.phase_s for phase in situation.phases))
    if situation.predicted is None:
        return situation.now_s
    return situation.predicted.begins_s + situation.predicted.duration_s


POLICIES: Mapping[str, type[Policy]] = {
    "no-action": NoAction,
    "full-delay": FullDelay,
    "partial-delay": PartialDelay,
    "scale-down": ScaleDown,
    "scale-up": ScaleUp,
    "auto": Auto,
}


def parse_policy(text: str) -> Policy:
    """Make a policy of its name, with settings after a colon: ``partial-delay:limit=0.1,max_delay_s=60``.

    Parameters
    ----------
    text
        The name is a built-in one, or of an entry point of the group ``bbflow.policies``, or ``module:Name``.

    Raises
    ------
    ConfigError
        If there is no such policy or setting, or a value is wrong.
    """
    name, rest = _name_and_settings(text.strip())
    kind = POLICIES.get(name) or _own_kind(name)
    types = {item.name: type(item.default) for item in dataclasses.fields(kind) if type(item.default) in (int, float)}
    given: dict[str, float | int] = {}
    for part in filter(None, rest.split(",")):
        key, _, value = part.partition("=")
        if key not in types:
            raise ConfigError(f"delay policy {name}: unknown setting {key!r}; {nearest(key, types)}")
        given[key] = _number(value, types[key], f"delay policy {name}: {key}")
    return kind(**given)


def _name_and_settings(text: str) -> tuple[str, str]:
    """Part ``name:settings`` and ``module:Name:settings``: settings have an equals sign, names have none."""
    name, _, rest = text.partition(":")
    second, _, settings = rest.partition(":")
    is_class = bool(second) and "=" not in second and name not in POLICIES
    return (f"{name}:{second}", settings) if is_class else (name, rest)


def _own_kind(name: str) -> type[Policy]:
    kind: type[Policy] | None = find_own(name)
    if kind is None:
        raise ConfigError(f"unknown delay policy {name!r}; {nearest(name, [*POLICIES, *installed()])}")
    is_policy = isinstance(kind, type) and issubclass(kind, Policy) and _is_dataclass_itself(kind)
    if not is_policy or any(_has_no_default(item) for item in dataclasses.fields(kind)):
        raise ConfigError(
            f"{name} isn't a delay policy: it must be a dataclass that inherits from bbflow.staging.Policy, with a "
            "default for each of its settings"
        )
    return kind


def _is_dataclass_itself(kind: type) -> bool:
    """Whether a class is decorated: one that only inherits has its base's settings, and none of its own."""
    return "__dataclass_fields__" in vars(kind)


def _has_no_default(item: dataclasses.Field[Any]) -> bool:
    return item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING


def checked_policy(text: str, phases: Path | None) -> Policy:
    """Make a policy, and see that it can do what it says.

    Parameters
    ----------
    text
        As for `parse_policy`.
    phases
        Where phases are announced.

    Raises
    ------
    ConfigError
        If there is no such policy, or it could never see a phase.
    """
    policy = parse_policy(text)
    if phases is None and policy.needs_phases:
        raise ConfigError(f"delay policy {text}: it needs 'phases', a directory where I/O phases are announced")
    return policy


def _number(text: str, kind: type, where: str) -> float | int:
    try:
        number: float | int = kind(text)
    except ValueError:
        raise ConfigError(f"{where}: {text!r} isn't a {'whole number' if kind is int else 'number'}") from None
    if math.isnan(number) or number < (1 if kind is int else 0):
        raise ConfigError(f"{where}: {text} is out of range; it must be {'1' if kind is int else '0'} or more")
    return number
