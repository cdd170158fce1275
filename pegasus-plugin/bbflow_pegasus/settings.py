"""What a user says about a burst buffer, and what Pegasus must be told: entries of its catalogs, and properties."""

import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from bbflow.errors import ConfigError, MissingToolError
from bbflow.phases.board import DIRECTORY_VARIABLE
from bbflow.staging import parse_policy
from bbflow.units import parse_bytes
from bbflow_pegasus.conduct import FILE_SYSTEM, OBSERVE, POLICY, TARGET

if TYPE_CHECKING:
    from Pegasus.api import Properties, SiteCatalog, TransformationCatalog

NODE_DIRECTORY = "PEGASUS_WN_TMP"
"""Where PegasusLite makes a job's working directory."""
PROGRAM, COMMAND = "bbflow-pegasus-transfer", "bbflow-pegasus"


@dataclass(frozen=True, slots=True)
class BurstBufferSite:
    """A burst buffer as a staging site."""

    directory: str | Path
    """On the burst buffer, an absolute path; or ``s3://user@endpoint/bucket/prefix``, as Pegasus writes it."""
    capacity: int | str
    """Bytes that staged files may take together."""
    site: str = "bb"
    """Name of the staging site."""
    compute: Sequence[str] = ("condorpool",)
    """Names of the sites where jobs run."""
    slots: int = 1
    """Jobs that run at once: a wave."""
    lookahead: int = 1
    """Waves that are staged ahead of the one that computes."""
    policy: str = "no-action"
    """Delay policy, such as ``full-delay`` or ``partial-delay:limit=0.1``: what transfers do in others' I/O phases."""
    phases: str | Path | None = None
    """Directory where those phases are announced, seen from where transfers run."""
    observe: Sequence[str] = ()
    """Traffic in which phases are seen too, as ``bbflow stage --observe`` takes it."""
    file_system: str | None = None
    """Only its phases count."""
    threads: int | None = None
    """Files that a transfer job copies at once; Pegasus's default (2) if None."""
    node_directory: str | None = None
    """On a burst buffer that each node has for itself: there jobs work; None if they work elsewhere."""
    transfers_at: str = "local"
    """Site where transfer jobs run: the submit host, where it sees the burst buffer."""
    serve_jobs: bool = False
    """Whether jobs' copies from and to the burst buffer are bbflow's too, which their hosts then have at this path."""

    def __post_init__(self) -> None:
        parse_bytes(self.capacity)
        if isinstance(self.compute, str) or isinstance(self.observe, str):
            raise ConfigError("compute and observe are lists of names: write ['condorpool']")
        for name, least in (("slots", 1), ("lookahead", 0), ("threads", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ConfigError(f"{name} is {value}: it must be {least} or more")
        if not self.is_object and not Path(self.directory).is_absolute():
            raise ConfigError(
                f"directory {str(self.directory)!r} must be an absolute path, or s3://user@endpoint/bucket"
            )
        if self.node_directory is not None and not self.node_directory.startswith(("/", "$")):
            raise ConfigError(
                f"node_directory {self.node_directory!r} must be an absolute path, or begin by a variable"
            )
        if self.is_object and not (urlsplit(str(self.directory)).username and self.path.strip("/")):
            raise ConfigError(f"{self.directory}: write it as Pegasus does, s3://user@endpoint/bucket/prefix")
        if parse_policy(self.policy).needs_phases and not (self.phases or self.observe):
            raise ConfigError(f"policy {self.policy}: it needs 'phases', a directory where I/O phases are announced")

    @property
    def is_object(self) -> bool:
        """Whether the staging site is an object store."""
        return str(self.directory).startswith(("s3://", "s3s://"))

    @property
    def path(self) -> str:
        """The directory in the site catalog: a path, or the bucket and what follows."""
        return urlsplit(str(self.directory)).path if self.is_object else str(self.directory)

    @property
    def url(self) -> str:
        """Of its file server."""
        return str(self.directory) if self.is_object else f"file://{self.directory}"

    def site_entry(self) -> dict[str, Any]:
        """Return the staging site, as the site catalog has it."""
        directory = {
            "type": "sharedScratch",
            "path": self.path,
            "sharedFileSystem": False,
            "fileServers": [{"url": self.url, "operation": "all"}],
        }
        profiles = {} if self.is_object else {"profiles": {"pegasus": {"auxillary.local": "true"}}}
        return {"name": self.site, "directories": [directory], **profiles}

    def compute_profiles(self) -> dict[str, str]:
        """Return the environment of jobs at the compute sites."""
        return {} if self.node_directory is None else {NODE_DIRECTORY: self.node_directory}

    def transformation_entries(self) -> list[dict[str, Any]]:
        """Return what transfers, removes, makes directories and plans sub-workflows, for the transformation catalog."""
        threads = {} if self.threads is None else {"pegasus": {"transfer.threads": str(self.threads)}}
        here = {"name": self.transfers_at, "pfn": installed(PROGRAM), "type": "installed"}
        jobs = [{**here, "name": name} for name in self.compute if self.serve_jobs and name != self.transfers_at]
        transfer = {**here, "profiles": {"env": dict(self.environment()), **threads}}
        planner = {"name": "local", "pfn": installed(COMMAND), "type": "installed"}
        sites = {"transfer": [transfer, *jobs], "cleanup": [here], "dirmanager": [here], "pegasus-plan": [planner]}
        return [{"namespace": "pegasus", "name": name, "sites": each} for name, each in sites.items()]

    def environment(self) -> Mapping[str, str]:
        """Return the variables of the transfer jobs."""
        given = {
            TARGET: str(self.directory),
            POLICY: self.policy,
            DIRECTORY_VARIABLE: self.phases and str(self.phases),
            OBSERVE: ",".join(self.observe),
            FILE_SYSTEM: self.file_system,
        }
        return {key: str(value) for key, value in given.items() if value}

    def properties(self) -> dict[str, str]:
        """Return the properties."""
        return {
            "pegasus.data.configuration": "nonsharedfs",
            "pegasus.transfer.bypass.input.staging": "false",
            "pegasus.file.cleanup.scope": "deferred",  # else sub-workflows are planned without cleanup
            "pegasus.bbflow.site": self.site,
            "pegasus.bbflow.capacity": str(parse_bytes(self.capacity)),
            "pegasus.bbflow.slots": str(self.slots),
            "pegasus.bbflow.lookahead": str(self.lookahead),
            "pegasus.bbflow.command": installed(COMMAND),
        }

    @property
    def staging_sites(self) -> str:
        """What ``pegasus-plan --staging-site`` gets."""
        return ",".join(f"{name}={self.site}" for name in self.compute)

    def apply(self, properties: "Properties", sites: "SiteCatalog", transformations: "TransformationCatalog") -> None:
        """Put everything into the objects from which a program writes its catalogs.

        Parameters
        ----------
        properties, sites, transformations
            Of `Pegasus.api`.

        Raises
        ------
        ConfigError
            If there is a site or a ``pegasus::transfer`` of these names, or no such compute site.
        MissingToolError
            If `Pegasus.api` isn't installed.
        """
        from bbflow_pegasus.objects import add_site, add_transformation, set_environment, set_properties

        add_site(sites, self.site_entry())
        for name in self.compute if self.compute_profiles() else ():
            set_environment(sites, name, self.compute_profiles())
        for entry in self.transformation_entries():
            add_transformation(transformations, entry)
        set_properties(properties, self.properties())


def installed(name: str) -> str:
    """Return the path of a program that came with bbflow.

    Raises
    ------
    MissingToolError
        If it isn't there.
    """
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise MissingToolError(f"{name} isn't beside {sys.executable}, nor on PATH: pip install 'bbflow[pegasus]'")
    return found
