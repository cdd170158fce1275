"""What an ensemble's configuration says, as records: its members, their own analysis, and what follows across."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from bbflow.configuring.settings import Config, ResultsConfig
from bbflow.ensemble.scoring import KeptMembers
from bbflow.ensemble.sobol import PickFreeze
from bbflow.operators.family import Family
from bbflow.operators.operator import Operator
from bbflow.operators.own.origin import Origin
from bbflow.operators.space.space import Space
from bbflow.operators.windows.window import Window

STEP = "step"
"""The window of a member's steps themselves."""
STANDARD_ERROR = "standard_error"
"""What stands among the operators for the standard error of the mean, and CF's modifier of a standard name."""
MEMBERS = "members"
"""Below the output: a directory for each member."""
FIELD_FILES = ResultsConfig({"time": 1})
"""Members' results are a file for each field, which goes when it is folded."""


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
    weights: tuple[float, ...] = ()
    """How much each counts; empty if all count alike."""
    starts: tuple[str, ...] = ()
    """Dates at which forecasts start, ascending: each member runs from each; empty if there is one run of each."""
    name: str = ""
    """The ensemble's; the stream's by default."""
    on_failure: str = "wait"
    """What a member is whose program fails: waited for (wait), or lost at once (lost)."""
    lost_after_s: float | None = None
    """A member that has begun, and whose program doesn't run, is lost after so many seconds; None: when someone says
    so."""
    lost: str = "stays"
    """What becomes of what a lost member gave: it stays, or is taken out, for which members' fields are kept."""
    late: str = "refuse"
    """What becomes of a field whose moment is complete: refuse, or amend the row that was shown."""
    show: int | None = None
    """A moment is shown as soon as so many members are in it, and again when others come; None: once, complete."""
    states: StatesConfig = field(default_factory=StatesConfig)
    """Where open moments are."""
    keep: bool = False
    """Whether the members' own fields stay."""
    sobol: PickFreeze | None = None
    """The design by which members' parameters were drawn; None if it is none for Sobol' indices."""
    decide: Origin | None = None
    """A function of the user's that may say that it is enough."""
    truth: str | None = None
    """A further member that isn't in the statistics: scores may be against it."""

    @property
    def runs(self) -> tuple[str, ...]:
        """Names of all that run: the members, and the truth if there is one; with starts START.NAME."""
        return tuple(run_of(start, name) for start in self.starts or ("",) for name in self.everyone)

    @property
    def everyone(self) -> tuple[str, ...]:
        """The members, and the truth if there is one."""
        return self.members if self.truth is None else (*self.members, self.truth)


@dataclass(frozen=True, slots=True)
class ScoresConfig:
    """The key 'scores' of a diagnostic."""

    reference: Path | None = None
    """A Zarr store or a file that xarray opens; None for the member that is the truth."""
    variable: str | None = None
    """Its name there; the diagnostic's by default."""
    remap: str = ""
    """con, bil, nn or dis: how references get onto the members' grid; empty if they are on it."""
    regions: Mapping[str, Space] = field(default_factory=dict)
    """Selections with scores of their own, besides those of all points, by name."""
    crps: bool = True
    """Whether there are CRPS and rank histogram, for which the values of all members are kept."""
    quantiles: int = 0
    """The CRPS is made of so many quantiles, with a bound of its error, and members aren't kept; 0: of these."""
    maps: bool = False
    """Whether there are maps of CRPS, error and spread too."""
    above: tuple[float, ...] = ()
    """Limits: the Brier score and reliability of values above each."""
    bins: int = 10
    """Bins of probability."""
    climatology: Path | None = None
    """Like `reference`: what anomalies are taken from, for the anomaly correlation."""
    members: int = 0
    """How many there are."""

    operators: Mapping[str, Operator] = field(default_factory=dict)
    """Operators whose results the scores need, by name."""
    events: Mapping[float, Operator] = field(default_factory=dict)
    """What counts the members above each limit."""

    @property
    def families(self) -> tuple[Family, ...]:
        """All that must be kept."""
        items = (*self.operators.values(), *self.events.values())
        own = (KeptMembers(self.members),) if self.keeps_members else ()
        return (*(family for item in items for family in item.families), *own)

    @property
    def keeps_members(self) -> bool:
        """Whether the state has a field for each member."""
        return self.crps and not self.quantiles


@dataclass(frozen=True, slots=True)
class AcrossField:
    """A field with statistics across members."""

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
    is_mean: bool = False
    """Whether its times are means over spans."""
    design: PickFreeze | None = None
    """What makes the members groups that are taken whole; None if each is taken by itself."""

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

    @property
    def output(self) -> Path:
        """The ensemble's directory."""
        return self.member.output

    def weight_of(self, run: str) -> float:
        """Return how much a run counts."""
        own = self.ensemble
        return dict(zip(own.members, own.weights, strict=True))[split_run(run)[1]] if own.weights else 1.0

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
            Whether an earlier attempt has left a state to continue from.
        """
        output = self.output_of(member)
        # A restarted member writes again what it had written since its restart file: that is no loss.
        time = replace(self.member.time, late="skip") if attempt > 1 else self.member.time
        return replace(
            self.member,
            stream=self.stream_of(member, attempt),
            output=output,
            time=time,
            results=FIELD_FILES,
            continued=output if continues else None,
            is_joined=not self.ensemble.keep,
        )


def run_of(start: str, member: str) -> str:
    """Return what a member's run from a start is called."""
    return f"{start}.{member}" if start else member


def split_run(run: str) -> tuple[str, str]:
    """Return the start of a run, empty if there are none, and its member."""
    start, _, member = run.rpartition(".")
    return start, member


def suffix_of(member: str, attempt: int) -> str:
    """Return what is put behind the names of a member's streams."""
    return f".{member}.{attempt}"
