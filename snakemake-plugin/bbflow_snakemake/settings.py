"""What a user says on Snakemake's command line or in a profile: ``--storage-bbflow-capacity 200GiB``."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from snakemake_interface_storage_plugins.settings import StorageProviderSettingsBase

from bbflow.errors import ConfigError, nearest
from bbflow.phases import BoardSource, PhaseSource
from bbflow.reading.yaml_files import read_yaml
from bbflow.staging import Policy, parse_policy
from bbflow.staging.waves import OVERSIZE
from bbflow.units import parse_bytes


def _setting(default: Any, words: str) -> Any:
    return field(default=default, metadata={"help": words})


# The types are those that Snakemake's command line knows.
@dataclass
class StorageProviderSettings(StorageProviderSettingsBase):
    """The burst buffer is where Snakemake's ``--local-storage-prefix`` is; here is how it is filled."""

    capacity: str = _setting("4GiB", "Room for inputs that are fetched ahead, such as 200GiB.")
    policy: str = _setting(
        "no-action",
        "What transfers do in other applications' I/O phases, such as full-delay or partial-delay:limit=0.1.",
    )
    phases: str | None = _setting(None, "Directory where those phases are announced.")
    fetchers: int = _setting(8, "Files that are fetched at once.")
    lookahead: int = _setting(1, "Waves of jobs whose inputs are fetched ahead of the one that computes.")
    oversize: str = _setting(
        "error",
        "What becomes of a job whose inputs can't fit: error, or direct, which lets it have them beyond the room.",
    )
    options: str | None = _setting(
        None,
        "YAML file of stores' options: of each protocol a mapping, such as s3: {endpoint_url: http://127.0.0.1:9000}.",
    )
    contact: str | None = _setting(None, "Contact file of the BB nodes that keep the files of bb:// URLs.")
    events: str | None = _setting(None, "Directory to note in what is staged when.")


@dataclass(frozen=True, slots=True)
class Plan:
    """The settings, checked."""

    capacity_bytes: int
    """Room for files."""
    policy: Policy
    """What transfers do while others are in an I/O phase."""
    phases: PhaseSource | None
    """Where those are seen."""
    fetchers: int
    """Transfers at once."""
    lookahead: int
    """Waves ahead."""
    oversize: str
    """What becomes of a set of files that can't fit."""
    sources: Mapping[str, Mapping[str, Any]]
    """Protocol to options of its store."""
    events: Path | None
    """Directory of the events."""


def plan_of(settings: StorageProviderSettings) -> Plan:
    """Check settings.

    Raises
    ------
    ConfigError
        If one is wrong; it names it as the command line has it.
    """
    try:
        capacity_bytes = parse_bytes(settings.capacity)
    except ConfigError as error:
        raise ConfigError(f"--storage-bbflow-capacity: {error}") from None
    policy = parse_policy(settings.policy)
    if policy.needs_phases and settings.phases is None:
        raise ConfigError(
            f"--storage-bbflow-policy {settings.policy} needs --storage-bbflow-phases, a directory where I/O phases "
            "are announced"
        )
    if settings.oversize not in OVERSIZE:
        raise ConfigError(f"--storage-bbflow-oversize {settings.oversize!r}: {nearest(settings.oversize, OVERSIZE)}")
    for name, least in (("fetchers", 1), ("lookahead", 0)):
        if getattr(settings, name) < least:
            raise ConfigError(f"--storage-bbflow-{name} is {getattr(settings, name)}: it must be {least} or more")
    return Plan(
        capacity_bytes,
        policy,
        None if settings.phases is None else BoardSource(Path(settings.phases)),
        settings.fetchers,
        settings.lookahead,
        settings.oversize,
        _sources(settings),
        None if settings.events is None else Path(settings.events),
    )


def _sources(settings: StorageProviderSettings) -> dict[str, Mapping[str, Any]]:
    found: dict[str, Mapping[str, Any]] = {}
    if settings.options is not None:
        options = read_yaml(Path(settings.options))
        if not isinstance(options, Mapping) or not all(isinstance(each, Mapping) for each in options.values()):
            raise ConfigError(f"{settings.options}: it must have a mapping of options for each protocol, such as s3")
        found = dict(options)
    if settings.contact is not None:
        found["bb"] = {**found.get("bb", {}), "contact": settings.contact}
    return found
