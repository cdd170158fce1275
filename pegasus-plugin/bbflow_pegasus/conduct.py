"""How a transfer job behaves: its settings, which the transformation catalog gives it as environment variables."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bbflow.errors import ConfigError
from bbflow.phases import BoardSource, PhaseSource, SourcesTogether, observe
from bbflow.phases.board import DIRECTORY_VARIABLE
from bbflow.staging import Policy, parse_policy
from bbflow.staging.policies import NoAction

TARGET, POLICY, OBSERVE, FILE_SYSTEM = "BBFLOW_BB", "BBFLOW_POLICY", "BBFLOW_OBSERVE", "BBFLOW_FILE_SYSTEM"
_STAGE_IN = "stage_in"


@dataclass(frozen=True, slots=True)
class Conduct:
    """What a transfer job does, and when."""

    job: str
    """Its name in the executable workflow; empty outside of one."""
    target: str | None = None
    """Only what goes below this path or URL is staged by bbflow; everything if None."""
    policy: Policy = field(default_factory=NoAction)
    """What transfers do while others are in an I/O phase."""
    phases: Path | None = None
    """Where I/O phases are announced."""
    observed: tuple[str, ...] = ()
    """Traffic in which phases are seen, as `bbflow stage --observe` takes it."""
    file_system: str | None = None
    """The only one whose phases count."""
    run: str = ""
    """The submit directory, as the name of the run."""
    notes: Path | None = None
    """Where the job's events are noted, in the submit directory; nowhere if None."""

    @property
    def is_stage_in(self) -> bool:
        """Whether it is a job that stages inputs in; no other has more to say than its name."""
        return self.job.startswith(_STAGE_IN)

    @property
    def crowd(self) -> Path | None:
        """Where the jobs of a run that transfer see each other, and those of others if they have something to share."""
        if self.phases is not None and self.policy.needs_phases:
            return self.phases / "transfers"
        return None if self.notes is None else self.notes.with_name("transfers")

    @property
    def wave(self) -> int:
        """The wave whose files it brings, by its name; 0 if that says none."""
        found = re.search(r"_(\d+)_\d+$", self.job)
        return int(found[1]) if found else 0

    def phase_source(self) -> PhaseSource | None:
        """Return where phases are seen; None for nowhere."""
        places: list[PhaseSource] = [observe(what) for what in self.observed]
        if self.phases is not None:
            places.insert(0, BoardSource(self.phases, self.file_system))
        return SourcesTogether(places) if places else None


def conduct_of(environment: Mapping[str, str]) -> Conduct:
    """Read the settings of the job that runs here.

    Raises
    ------
    ConfigError
        If there is no such policy, or it could never see a phase.
    """
    phases = environment.get(DIRECTORY_VARIABLE)
    observed = tuple(filter(None, environment.get(OBSERVE, "").split(",")))
    text = environment.get(POLICY) or "no-action"
    policy = parse_policy(text)
    if policy.needs_phases and not (phases or observed):
        raise ConfigError(f"delay policy {text} of the transfer: it needs {DIRECTORY_VARIABLE} or {OBSERVE}")
    job = environment.get("PEGASUS_DAG_JOB_ID", "")
    if not job.startswith(_STAGE_IN):
        return Conduct(job)
    submit = environment.get("_PEGASUS_WF_SUBMIT_DIR", "")
    return Conduct(
        job=job,
        target=environment.get(TARGET) or None,
        policy=policy,
        phases=Path(phases) if phases else None,
        observed=observed,
        file_system=environment.get(FILE_SYSTEM) or None,
        run=submit,
        notes=Path(submit) / "bbflow" / job if job and submit and Path(submit).is_dir() else None,
    )
