"""A submit directory that Pegasus has planned: what it says of itself and its jobs."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bbflow.errors import ConfigError

OLDEST = (5, 0)
"""The oldest Pegasus whose plans are understood."""
_PAIR = re.compile(r'([\w.]+)="([^"]*)"')


@dataclass(frozen=True, slots=True)
class SubmitDir:
    """A planned workflow."""

    path: Path
    """The directory."""
    dag: Path
    """DAGMan's input file."""
    properties: Path
    """The planner's copy of the properties."""

    @property
    def static_events(self) -> Path:
        """What the planner tells the monitoring daemon of jobs and edges."""
        return self.dag.with_name(self.dag.stem + ".static.bp")

    @property
    def metadata(self) -> Path:
        """What the planner knows of the files of jobs."""
        return self.dag.with_name(self.dag.stem + ".metadata")

    @property
    def has_run(self) -> bool:
        """Whether DAGMan was ever started here."""
        return self.dag.with_name(self.dag.name + ".dagman.out").exists()


def open_submit_dir(path: Path) -> SubmitDir:
    """Find out what a submit directory is.

    Raises
    ------
    ConfigError
        If it is none, or was made by a Pegasus that is too old.
    """
    braindump = path / "braindump.yml"
    if not braindump.is_file():
        raise ConfigError(f"{path} isn't a submit directory of Pegasus 5: it has no braindump.yml; give pegasus-plan's")
    said: dict[str, str] = yaml.safe_load(braindump.read_text())
    version = str(said.get("planner_version", "0"))
    if tuple(int(part) for part in re.findall(r"\d+", version)[:2]) < OLDEST:
        raise ConfigError(f"{path} was planned by Pegasus {version}: plan it with 5.0 or later")
    if str(said.get("uses_pmc")).lower() == "true":
        raise ConfigError(f"{path} runs as one MPI job (pegasus-mpi-cluster), in which nothing can come in waves")
    return SubmitDir(path, path / said["dag"], path / said["properties"])


def read_properties(path: Path) -> dict[str, str]:
    """Read a file of Java properties, such as the planner writes."""
    found: dict[str, str] = {}
    for line in path.read_text().splitlines():
        name, mark, value = line.partition("=")
        if mark and not line.lstrip().startswith(("#", "!")):
            found[name.strip()] = re.sub(r"\\(.)", r"\1", value.strip())
    return found


def job_types(events: Iterable[str]) -> dict[str, str]:
    """Return the type of each job, such as ``compute`` or ``stage-in-tx``."""
    infos = (dict(_PAIR.findall(line)) for line in events if " event=job.info " in line)
    return {info["job.id"]: info["type_desc"] for info in infos}


def made_bytes(metadata: Path) -> dict[str, int]:
    """Return sizes that the workflow says of files, by logical name; what says none is left out."""
    if not metadata.is_file():
        return {}
    jobs: dict[str, dict[str, Any]] = json.loads(metadata.read_text())["graph"]["jobs"]
    said = {key: value for about in jobs.values() for key, value in about.items()}
    return {key[: -len(".size")]: int(value) for key, value in said.items() if re.search(r"[@.]size$", key)}
