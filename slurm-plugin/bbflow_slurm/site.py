"""What a site says once: where the burst buffer is, how much of it Slurm gives away, and whom transfers give way to."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bbflow.errors import ConfigError
from bbflow.phases import BoardSource, PhaseSource
from bbflow.reading.sections import positive, read_section, text
from bbflow.reading.yaml_files import read_yaml
from bbflow.staging import Policy, parse_policy
from bbflow.units import parse_bytes, parse_path
from bbflow_slurm.directives import Pool


@dataclass(frozen=True)
class Site:
    """One burst buffer, which the controller's host and all nodes see under one path."""

    directory: Path
    """Each job has a directory in it, named by its number."""
    capacity: str | int = "1TiB"
    """What jobs may ask for together."""
    granularity: str | int = "1GiB"
    """What they get is a multiple of it."""
    pool: str = "bb"
    """As ``#BB_LUA pool=`` names it."""
    policy: str = "no-action"
    """What transfers do in other applications' I/O phases."""
    phases: Path | None = None
    """Where these are announced."""
    fetchers: int = 8
    """Files of a job that are copied at once."""
    sources: Mapping[str, Any] = field(default_factory=dict)
    """Protocol to options of its store."""
    stream_hosts: tuple[str, ...] = ()
    """Hosts that have the BB nodes of jobs' streams; none: each job's own hosts."""
    stream_launch: str = "ssh {host} bbflow-slurm"
    """What runs this program on one of them, as root."""

    @property
    def pools(self) -> dict[str, Any]:
        """The pool, as Slurm reads it."""
        size, unit = parse_bytes(self.capacity), parse_bytes(self.granularity)
        return {"pools": [{"id": self.pool, "quantity": size // unit, "granularity": unit}]}

    @property
    def pool_of_all(self) -> Pool:
        """The pool, as job scripts are checked against it."""
        return Pool(self.pool, parse_bytes(self.capacity))

    @property
    def delay_policy(self) -> Policy:
        """The policy."""
        return parse_policy(self.policy)

    @property
    def phase_source(self) -> PhaseSource | None:
        """Where phases are seen."""
        return None if self.phases is None else BoardSource(self.phases)


def read_site(path: Path) -> Site:
    """Read the site's file.

    Raises
    ------
    ConfigError
        If it can't be read, or anything in it is wrong.
    """
    content = read_yaml(path)
    site = read_section(
        Site,
        content,
        str(path),
        directory=parse_path,
        capacity=parse_bytes,
        granularity=parse_bytes,
        pool=text,
        policy=text,
        phases=parse_path,
        fetchers=positive,
        sources=_sources,
        stream_hosts=_hosts,
        stream_launch=_launch,
    )
    if site.delay_policy.needs_phases and site.phases is None:
        raise ConfigError(f"{path}: policy {site.policy} needs 'phases', a directory where I/O phases are announced")
    return site


def _hosts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(host, str) and host for host in value):
        raise ConfigError(f"{value!r} must be a list of hosts' names, such as [bbn1, bbn2]")
    return tuple(value)


def _launch(value: Any) -> str:
    if not isinstance(value, str) or "{host}" not in value:
        raise ConfigError(f"{value!r} must be a command with {{host}} in it, such as 'ssh {{host}} bbflow-slurm'")
    return value


def _sources(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{value!r} must be a map of protocols, such as {{s3: {{endpoint_url: …}}}}")
    return value
