"""Plans the mosaic's workflow with Pegasus and runs it, with or without a burst buffer."""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bbflow_pegasus import BurstBufferSite
from bbflow_pegasus.settings import installed
from bbflow_workflows.montage.dag import Abstract, transformations
from bbflow_workflows.montage.places import Place, named
from bbflow_workflows.montage.shell import completed
from Pegasus.api import (
    OS,
    Arch,
    Directory,
    FileServer,
    Namespace,
    Operation,
    Properties,
    Site,
    SiteCatalog,
    TransformationCatalog,
)

from bbflow.errors import ConfigError, MissingToolError, TaskError

SCRATCH = "scratch"
"""Staging site without a burst buffer."""
LOCAL, POOL = "local", "condorpool"
BUCKETS = ("AWS_ENDPOINT_URL", "AWS_REGION", "AWS_PROFILE", "AWS_SHARED_CREDENTIALS_FILE")
"""Variables that say where buckets are, and where the keys to them; keys themselves never get into a catalog."""
_POLL_S = 1.0
_REACH = "import sys; from bbflow_workflows.montage import places; places.reach(sys.argv[1])"


@dataclass(frozen=True, slots=True)
class Settings:
    """How a workflow is planned."""

    output: Path
    """Directory of the results; what Pegasus needs is in ``pegasus`` below it."""
    where: str = "condor"
    """``condor``, or ``shell``: one job after the other, without HTCondor."""
    buffer: BurstBufferSite | None = None
    """Through which inputs and intermediate files go; through a directory below the output if None."""
    properties: tuple[tuple[str, str], ...] = ()
    """More of them, such as a cleanup strategy."""

    @property
    def site(self) -> str:
        """Where jobs run: Pegasus's shell scripts know the submit host only."""
        return LOCAL if self.where == "shell" else POOL

    @property
    def folder(self) -> Path:
        """Where the catalogs, the submit directory and the scratch directory are."""
        return self.output.absolute() / "pegasus"


def run(abstract: Abstract, settings: Settings) -> Path:
    """Plan a workflow, run it, and return its submit directory.

    Raises
    ------
    MissingToolError
        If Pegasus isn't on PATH.
    TaskError
        If it can't be planned, or a job failed.
    """
    write_catalogs(abstract, settings)
    submit = plan(settings)
    if settings.where == "shell":
        script = submit / "montage.sh"
        script.write_text(completed(script.read_text(), submit))
        _call(["bash", str(script)], submit)
    else:
        _call([_tool("pegasus-run"), str(submit)], settings.folder)
        wait(submit)
    return submit


def reach_without_keys(place: Place) -> None:
    """Look whether HTCondor's jobs can read what lies in a bucket, who see none of the keys in this environment.

    Raises
    ------
    ConfigError
        If they can't.
    """
    theirs = {name: value for name, value in os.environ.items() if name in BUCKETS or not name.startswith("AWS_")}
    words = [sys.executable, "-c", _REACH, named(place)]
    done = subprocess.run(words, env=theirs, text=True, capture_output=True, check=False)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or [f"code {done.returncode}"])[-1]
        raise ConfigError(
            f"HTCondor's jobs, which don't get the keys of this environment, couldn't read {named(place)}: "
            f"write the keys into ~/.aws/credentials (a job would say: {reason})"
        )


def write_catalogs(abstract: Abstract, settings: Settings) -> None:
    """Write the workflow, the catalogs and the properties."""
    folder = settings.folder
    folder.mkdir(parents=True, exist_ok=True)
    sites, programs = _sites(settings), transformations(sys.executable, settings.site)
    properties = _properties(settings)
    if settings.buffer is not None:
        settings.buffer.apply(properties, sites, programs)
    else:
        sites.add_sites(_staging_site(folder / SCRATCH))
    _write(folder, abstract, sites, programs, properties)


def _write(
    folder: Path, abstract: Abstract, sites: SiteCatalog, programs: TransformationCatalog, properties: Properties
) -> None:
    abstract.workflow.write(str(folder / "workflow.yml"))
    abstract.replicas.write(str(folder / "replicas.yml"))
    sites.write(str(folder / "sites.yml"))
    programs.write(str(folder / "transformations.yml"))
    properties.write(str(folder / "pegasus.properties"))


def _sites(settings: Settings) -> SiteCatalog:
    out, scratch = settings.output.absolute(), settings.folder / "local"
    local = Site(LOCAL, arch=Arch.X86_64, os_type=OS.LINUX).add_directories(
        _directory(Directory.SHARED_SCRATCH, scratch), _directory(Directory.LOCAL_STORAGE, out)
    )
    for name in BUCKETS:  # HTCondor's jobs, which copy from the bucket, see nothing of this environment
        if name in os.environ:
            local.add_profiles(Namespace.ENV, key=name, value=os.environ[name])
    pool = Site(POOL, arch=Arch.X86_64, os_type=OS.LINUX).add_pegasus_profile(style="condor")
    return SiteCatalog().add_sites(local, pool.add_condor_profile(universe="vanilla"))


def _staging_site(path: Path) -> Site:
    site = Site(SCRATCH).add_directories(_directory(Directory.SHARED_SCRATCH, path))
    return site.add_profiles(Namespace.PEGASUS, key="auxillary.local", value="true")


def _directory(kind: object, path: Path) -> Directory:
    return Directory(kind, path).add_file_servers(FileServer(f"file://{path}", Operation.ALL))


def _properties(settings: Settings) -> Properties:
    folder, properties = settings.folder, Properties()
    for kind, name in (("site", "sites"), ("replica", "replicas"), ("transformation", "transformations")):
        properties[f"pegasus.catalog.{kind}.file"] = str(folder / f"{name}.yml")
    properties["pegasus.catalog.replica"] = "YAML"
    properties["pegasus.data.configuration"] = "nonsharedfs"
    properties["pegasus.transfer.worker.package.strict"] = "false"
    if settings.where == "shell":
        properties["pegasus.code.generator"] = "Shell"
        properties["pegasus.integrity.checking"] = "none"  # its checksums come to the jobs by HTCondor
    for key, value in settings.properties:
        properties[key] = value
    return properties


def plan(settings: Settings) -> Path:
    """Plan, with waves if there is a burst buffer, and return the submit directory."""
    site = settings.buffer.site if settings.buffer is not None else SCRATCH
    words = [_tool("pegasus-plan")] if settings.buffer is None else [installed("bbflow-pegasus"), "plan"]
    words += ["--conf", "pegasus.properties", "--sites", settings.site, "--staging-site", f"{settings.site}={site}"]
    said = _call([*words, "--output-sites", LOCAL, "--dir", "submit", "workflow.yml"], settings.folder)
    found = re.search(r"pegasus-run\s+(/\S+)", said) or re.search(r"(/\S+/run\d+)", said)
    if found is None:
        raise TaskError(f"pegasus-plan doesn't tell where the planned workflow is: {said[-500:]}")
    return Path(found[1])


def wait(submit: Path) -> None:
    """Wait until a workflow has ended.

    Raises
    ------
    TaskError
        If it failed.
    """
    log = submit / "jobstate.log"
    while "MONITORD_FINISHED" not in (said := log.read_text() if log.exists() else ""):
        time.sleep(_POLL_S)
    if "DAGMAN_FINISHED 0 " not in said:
        raise TaskError(f"the workflow failed: see pegasus-analyzer {submit}")


def _call(words: Sequence[str], folder: Path) -> str:
    done = subprocess.run(words, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        tail = " ".join(done.stdout.split())[-600:]
        raise TaskError(f"{Path(words[0]).name} ended with code {done.returncode}: {tail}")
    return done.stdout


def _tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise MissingToolError(f"{name} isn't on PATH: install Pegasus 5, and put its bin directory on PATH")
    return found
