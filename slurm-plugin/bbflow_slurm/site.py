"""What a site says once: where the burst buffer is, how much of it Slurm gives away, and what transfers give way to."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bbflow.errors import ConfigError
from bbflow.host.held import OTHERS_READ, OTHERS_WRITE
from bbflow.reading.sections import positive, read_section, text
from bbflow.reading.yaml_files import read_yaml
from bbflow.staging import parse_policy
from bbflow.units import parse_bytes, parse_path, parse_seconds
from bbflow_slurm.directives import Pool
from bbflow_slurm.reach import SCHEMES


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
    sources: Path | None = None
    """File that only root may read: protocol to options of its store, such as its keys."""
    schemes: tuple[str, ...] = SCHEMES
    """Protocols of URLs that jobs may name."""
    hosts: tuple[str, ...] = ()
    """Names, patterns, addresses and networks that they may name; none: all but this host's own and its links'."""
    stream_hosts: tuple[str, ...] = ()
    """Hosts that have the BB nodes of jobs' streams; none: each job's own hosts."""
    stream_launch: str = "ssh {host} bbflow-slurm"
    """What runs this program on one of them, as root."""
    end_s: float = 3600.0
    """How long an analysis is given after its job."""

    @property
    def pools(self) -> dict[str, Any]:
        """The pool, as Slurm reads it."""
        size, unit = parse_bytes(self.capacity), parse_bytes(self.granularity)
        return {"pools": [{"id": self.pool, "quantity": size // unit, "granularity": unit}]}

    @property
    def pool_of_all(self) -> Pool:
        """The pool, as job scripts are checked against it."""
        size, unit = parse_bytes(self.capacity), parse_bytes(self.granularity)
        return Pool(self.pool, size // unit * unit, unit)

    def for_copying(self) -> dict[str, Any]:
        """Return what a child is told that copies for a job, with the secrets.

        Raises
        ------
        ConfigError
            If the file of sources can't be read, or others than its owner can read it.
        """
        return {
            "policy": self.policy,
            "phases": None if self.phases is None else str(self.phases),
            "fetchers": self.fetchers,
            "schemes": self.schemes,
            "hosts": self.hosts,
            "sources": {} if self.sources is None else _read_sources(self.sources),
        }


def read_site(path: Path) -> Site:
    """Read the site's file.

    Raises
    ------
    ConfigError
        If it can't be read, or anything in it is wrong.
    """
    site = read_section(
        Site,
        _read_own(path, OTHERS_WRITE),
        str(path),
        directory=parse_path,
        capacity=parse_bytes,
        granularity=parse_bytes,
        pool=text,
        policy=text,
        phases=parse_path,
        fetchers=positive,
        sources=_path_of_sources,
        schemes=_names("protocols", "[file, https]"),
        hosts=_names("hosts or networks", "[data.example.org, 10.1.0.0/16]"),
        stream_hosts=_names("hosts' names", "[bbn1, bbn2]"),
        stream_launch=_launch,
        end_s=parse_seconds,
    )
    if parse_policy(site.policy).needs_phases and site.phases is None:
        raise ConfigError(f"{path}: policy {site.policy} needs 'phases', a directory where I/O phases are announced")
    return site


def _names(what: str, example: str) -> Callable[[Any], tuple[str, ...]]:
    def read(value: Any) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(name, str) and name for name in value):
            raise ConfigError(f"{value!r} must be a list of {what}, such as {example}")
        return tuple(value)

    return read


def _launch(value: Any) -> str:
    if not isinstance(value, str) or "{host}" not in value:
        raise ConfigError(f"{value!r} must be a command with {{host}} in it, such as 'ssh {{host}} bbflow-slurm'")
    return value


def _path_of_sources(value: Any) -> Path:
    if not isinstance(value, str):  # a value may be a secret, so it isn't quoted
        raise ConfigError("must be the path of a file that only its owner can read, not the options themselves")
    return parse_path(value)


def _read_sources(path: Path) -> Mapping[str, Any]:
    content = _read_own(path, OTHERS_READ)
    if not isinstance(content, Mapping) or not all(isinstance(options, Mapping) for options in content.values()):
        raise ConfigError(f"{path} must be a map of protocols, such as s3: {{endpoint_url: …}}")
    return content


def _read_own(path: Path, forbidden: int) -> Any:
    """Read a file that root believes, or another user who runs this program: no other may have written it."""
    try:
        found = os.stat(path)
    except OSError as error:
        raise ConfigError(f"can't read {path}: {error.strerror}") from None
    if found.st_uid not in (0, os.geteuid()):
        raise ConfigError(f"{path} belongs to user {found.st_uid}: chown it to root")
    if found.st_mode & forbidden:
        what = "written" if forbidden == OTHERS_WRITE else "read"
        raise ConfigError(f"{path} can be {what} by others: chmod {0o666 & ~forbidden:o}")
    return read_yaml(path)
