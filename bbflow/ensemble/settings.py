"""What an ensemble's configuration says: its members, what each member's own analysis does, and what follows across."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bbflow.configuring.config import parse_config
from bbflow.configuring.settings import Config
from bbflow.ensemble.scoring import KeptMembers
from bbflow.errors import ConfigError
from bbflow.operators.family import Family
from bbflow.operators.filter import Filter
from bbflow.operators.operator import Operator
from bbflow.operators.own.origin import look_in, reading
from bbflow.operators.parse import parse_operators
from bbflow.operators.windows.parse import parse_windows
from bbflow.operators.windows.spans import StepsSpan
from bbflow.operators.windows.window import Window
from bbflow.reading.sections import as_list, flag, number, one_of, positive, read_as, read_section, text
from bbflow.reading.yaml_files import read_yaml
from bbflow.units import parse_bytes, parse_path

STEP_WINDOW = {"steps": {"count": 1, "name": "step"}}
"""The window of a member's steps themselves."""
MEMBERS = "members"
"""Below the output: a directory for each member."""
ONE_VALUE = "max"
"""What a member's analysis takes of a span that has one value: the value, in its own type."""
SAMPLES = ("std", "var", "covariance")
"""Operators that divide by n - 1 unless the configuration says otherwise: members are a sample."""
ORDERED = frozenset(
    ("first", "last", "instant", "argmin", "argmax", "trend", "longest_spell", "spell_count", "spell_steps")
)
"""Operators that go by the order of what they fold."""
NOT_HERE = ("functions", "publication", "netcdf", "copy_to", "work", "continue", "results")
"""Keys of a run's configuration that an ensemble's can't have."""


@dataclass(frozen=True, slots=True)
class StatesConfig:
    """Where the states of open moments are."""

    capacity: int = 1 << 30
    """Bytes in `directory`; what is more goes into the output."""
    directory: Path = Path("/dev/shm")
    """A file system in memory or on a fast disk."""


@dataclass(frozen=True, slots=True)
class EnsembleConfig:
    """The key 'ensemble'."""

    members: tuple[str, ...]
    """Their names."""
    name: str = ""
    """The ensemble's; the stream's by default."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """Weight of each member that has another than 1."""
    on_failure: str = "wait"
    """What a member is whose program fails: waited for (wait), or lost at once (lost)."""
    lost_after_s: float | None = None
    """A member that has begun, and whose program doesn't run, is lost after so many seconds; None: when somebody says
    so."""
    late: str = "refuse"
    """What becomes of a field whose moment is complete: refuse, or amend the row that was shown."""
    show: int | None = None
    """A moment is shown as soon as so many members are in it, and again when others come; None: once, complete."""
    states: StatesConfig = field(default_factory=StatesConfig)
    """Where open moments are."""
    keep: bool = False
    """Whether the members' own fields stay."""
    truth: str | None = None
    """A further member that isn't in the statistics: scores may be against it."""

    @property
    def everybody(self) -> tuple[str, ...]:
        """The members, and the truth if there is one."""
        return self.members if self.truth is None else (*self.members, self.truth)

    def weight(self, member: str) -> float:
        """Return a member's weight."""
        return self.weights.get(member, 1.0)


@dataclass(frozen=True, slots=True)
class ScoresConfig:
    """The key 'scores' of a diagnostic."""

    reference: Path | None = None
    """A Zarr store or a file that xarray opens; None for the member that is the truth."""
    variable: str | None = None
    """Its name there; the diagnostic's by default."""
    crps: bool = True
    """Whether there are CRPS and rank histogram, for which the values of all members are kept."""
    maps: bool = False
    """Whether there are maps of the CRPS too."""
    above: tuple[float, ...] = ()
    """Limits: the Brier score and reliability of values above each."""
    bins: int = 10
    """Bins of probability."""
    climatology: Path | None = None
    """Like `reference`: what anomalies are taken from, for the anomaly correlation."""
    members: int = 0
    """How many there are."""

    @property
    def operators(self) -> dict[str, Operator]:
        """Operators whose results the scores need, by name."""
        made = parse_operators(["mean", {"var": {"ddof": 1}}])
        return {item.name: item for item in made if isinstance(item, Operator)}

    @property
    def events(self) -> dict[float, Operator]:
        """What counts the members above each limit."""
        made = {limit: parse_operators([{"exceedance": {"above": limit}}])[0] for limit in self.above}
        return {limit: item for limit, item in made.items() if isinstance(item, Operator)}

    @property
    def families(self) -> tuple[Family, ...]:
        """All that must be kept."""
        items = (*self.operators.values(), *self.events.values())
        own = (KeptMembers(self.members),) if self.crps else ()
        return (*(family for item in items for family in item.families), *own)


@dataclass(frozen=True, slots=True)
class AcrossField:
    """A field of which there are statistics across members."""

    key: str
    """Of the diagnostic."""
    name: str
    """What its results are called."""
    result: str
    """What a member's store calls it."""
    inner: Window
    """The window of the members' own analyses whose spans are the field's times."""
    windows: tuple[Window, ...]
    """Windows over which members and times go together; the inner one itself for each time by itself."""
    operators: tuple[Operator, ...]
    """Across members."""
    others: Mapping[str, str]
    """Further inputs by their text: what a member's store calls them."""
    scores: ScoresConfig | None = None
    """What it is scored against; None if it isn't."""

    @property
    def keeping(self) -> tuple[Operator | ScoresConfig, ...]:
        """All that needs families in the state."""
        return (*self.operators, *((self.scores,) if self.scores else ()))


@dataclass(frozen=True, slots=True)
class EnsembleAnalysis:
    """All that an ensemble's configuration says."""

    ensemble: EnsembleConfig
    """The key 'ensemble'."""
    member: Config
    """A member's configuration, with the ensemble's stream and output."""
    fields: tuple[AcrossField, ...]
    """What is computed across members."""
    content: Mapping[str, Any]
    """A member's configuration as it would be written."""

    @property
    def output(self) -> Path:
        """The ensemble's directory."""
        return self.member.output

    def output_of(self, member: str) -> Path:
        """Return a member's directory."""
        return self.output / MEMBERS / member

    def stream_of(self, member: str, attempt: int) -> str:
        """Return the stream that a member's attempt writes."""
        return f"{self.member.stream}{suffix_of(member, attempt)}"

    def config_of(self, member: str, attempt: int, *, continues: bool) -> Config:
        """Return the configuration of a member's analysis.

        Parameters
        ----------
        member
            Its name.
        attempt
            From 1.
        continues
            Whether an earlier attempt has left a state to go on from.
        """
        output = self.output_of(member)
        # A restarted member writes again what it had written since its restart file: that is no loss.
        time = replace(self.member.time, late="skip") if attempt > 1 else self.member.time
        return replace(
            self.member,
            stream=self.stream_of(member, attempt),
            output=output,
            time=time,
            continued=output if continues else None,
        )


def suffix_of(member: str, attempt: int) -> str:
    """Return what is put behind the names of a member's streams."""
    return f".{member}.{attempt}"


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
        fields.append(found)
        inner |= own
    member_content = {**rest, "operators": inner, "windows": [STEP_WINDOW]}
    member = parse_config(member_content)
    config = replace(config, name=config.name or member.stream)
    _check_times(fields)
    return EnsembleAnalysis(config, member, tuple(fields), member_content)


def _parse_section(content: Any) -> EnsembleConfig:
    config = read_section(
        EnsembleConfig,
        content,
        "ensemble",
        name=text,
        members=_members,
        weights=_weights,
        on_failure=one_of("wait", "lost"),
        lost_after_s=number,
        late=one_of("refuse", "amend"),
        show=positive,
        states=lambda value: read_section(
            StatesConfig, value, "ensemble: states", capacity=parse_bytes, directory=parse_path
        ),
        keep=flag,
        truth=text,
    )
    if config.truth in config.members:
        raise ConfigError(f"ensemble: truth: {config.truth!r} is one of the members: give the truth another name")
    for name in config.weights:
        if name not in config.members:
            raise ConfigError(f"ensemble: weights: there is no member {name!r}")
    if config.show is not None and config.show > len(config.members):
        raise ConfigError(f"ensemble: show: {config.show} is more than the {len(config.members)} members")
    return config


def _members(value: Any) -> tuple[str, ...]:
    """Read how many members there are, or their names."""
    if isinstance(value, list):
        names = tuple(
            str(item) if isinstance(item, int) and not isinstance(item, bool) else text(item) for item in value
        )
    else:
        names = tuple(str(number) for number in range(1, positive(value) + 1))
    for name in names:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", name):
            raise ConfigError(f"member {name!r} must be a word of letters, digits, _ and -: a directory is called so")
        if names.count(name) > 1:
            raise ConfigError(f"member {name!r} is there twice: each has a name of its own")
    if not names:
        raise ConfigError("there are no members: give their number, or their names")
    return names


def _weights(value: Any) -> dict[str, float]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{value!r} must be a map from members to weights")
    read = {str(name): float(read_as(number, weight, str(name))) for name, weight in value.items()}
    for name, weight in read.items():
        if weight <= 0:
            raise ConfigError(f"{name}: {weight:g} is no weight above 0; a member that doesn't count is taken out")
    return read


def _field(
    key: str, parts: dict[str, Any], windows: Any, ensemble: EnsembleConfig
) -> tuple[AcrossField, dict[str, Any]]:
    """Read a diagnostic: what is computed across members, and the entries of the members' own configuration."""
    operators = _operators(as_list(parts.pop("operators", []), "operators"), len(ensemble.members))
    scores = _scores(parts.pop("scores"), ensemble) if "scores" in parts else None
    own = parts.pop("windows", windows)
    inner = _inner_window(parts.get("each"))
    (window,) = parse_windows([inner])
    entry = {"operators": [ONE_VALUE], "windows": [inner]}
    inside, others = {key: {**parts, **entry}}, dict[str, str]()
    alike = {name: parts[name] for name in ("space", "transforms", "each") if name in parts}
    for at, expression in enumerate(dict.fromkeys(own for item in operators for own in item.inputs)):
        name = f"{key}_with{at or ''}"
        inside[name] = {**alike, "of": expression, **entry}
        others[expression] = f"{name}_{window.name}_{ONE_VALUE}"
    across = (window,) if own is None else parse_windows(as_list(own, "windows"))
    for item in across:
        if item.keeps != 1 or (isinstance(item.spans, StepsSpan) and item != window):
            raise ConfigError(
                f"windows: {item.name} can't be had over members and times: take spans of the calendar, such as month, "
                "or run; without windows each time is by itself"
            )
    if scores is not None and any(item != window for item in across):
        raise ConfigError("scores are of each time: take 'windows' out, or put the scores under another name")
    found = AcrossField(key, key, f"{key}_{window.name}_{ONE_VALUE}", window, across, operators, others, scores)
    return found, inside


def _scores(content: Any, ensemble: EnsembleConfig) -> ScoresConfig:
    read = read_section(
        ScoresConfig,
        content,
        "scores",
        reference=parse_path,
        variable=text,
        crps=flag,
        maps=flag,
        above=lambda value: tuple(float(number(item)) for item in (value if isinstance(value, list) else [value])),
        bins=positive,
        climatology=parse_path,
    )
    if read.reference is None and ensemble.truth is None:
        raise ConfigError("scores: there is no 'reference', and 'ensemble' names no 'truth': give one of them")
    return replace(read, members=len(ensemble.members))


def _inner_window(each: Any) -> Any:
    if each is None:
        return STEP_WINDOW
    if isinstance(each, Mapping) and set(each) == {"window", "operator"}:
        return each["window"]
    if isinstance(each, Mapping) and len(each) == 1:
        return next(iter(each))
    raise ConfigError(f"each: {each!r} is not a map of a window to an operator, such as {{day: max}}")


def _operators(items: list[Any], members: int) -> tuple[Operator, ...]:
    chosen = []
    for item in items:
        name = next(iter(item)) if isinstance(item, Mapping) and len(item) == 1 else item
        given = dict(item[name] or {}) if isinstance(item, Mapping) and name in item else {}
        if name in SAMPLES:
            given.setdefault("ddof", 1)
        if name in ("percentiles", "median"):
            given.setdefault("steps", max(members, 2))
        if name in ORDERED:
            raise ConfigError(f"{name!r} means nothing across members, which have no order")
        chosen.append({name: given} if given else item)
    operators = parse_operators(chosen)
    for operator in operators:
        if isinstance(operator, Filter) or not operator.family.commutes:
            raise ConfigError(f"{operator.name!r} means nothing across members, which have no order")
        if operator.is_users:
            raise ConfigError(f"{operator.name!r} is an operator of your own, which can't be taken across members yet")
    return tuple(item for item in operators if isinstance(item, Operator))


def _check_times(fields: list[AcrossField]) -> None:
    """See that windows of one name are one, and no two results have one name."""
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
                    raise ConfigError(f"operators of {item.key}: the result {name} is there twice: take one out")
                names.add(name)
