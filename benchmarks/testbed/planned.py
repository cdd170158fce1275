"""The map job as a Pegasus workflow, planned as Pegasus does it by itself or through a burst buffer."""

import os
import re
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from bbflow_pegasus import BurstBufferSite
from bbflow_pegasus.dag.submitdir import open_submit_dir
from bbflow_pegasus.report.records import read_records
from Pegasus.api import (
    Directory,
    File,
    FileServer,
    Job,
    Namespace,
    Operation,
    Properties,
    ReplicaCatalog,
    Site,
    SiteCatalog,
    Transformation,
    TransformationCatalog,
    Workflow,
)

from benchmarks.testbed.address import ACCESS_KEY, BUCKET, ENDPOINT, SECRET_KEY
from benchmarks.testbed.bed import Bed
from benchmarks.testbed.job import Job as MapJob
from benchmarks.testbed.job import Outcome
from benchmarks.testbed.pool import inside

POOL, BB = "condorpool", "bb"
RUN_S = 900.0
"""No workflow may take longer."""
OURS = ("no-action", "full-delay", "auto")
PLAIN = {
    "plain": {},
    "one job per file": {"pegasus.stagein.clusters": "{tasks}"},
    "constraint": {
        "pegasus.stagein.clusters": "{tasks}",
        "pegasus.file.cleanup.strategy": "Constraint",
        "pegasus.file.cleanup.constraint.bb.maxspace": "{inputs}",
    },
    "deferstageins": {
        "pegasus.stagein.clusters": "{tasks}",
        "pegasus.file.cleanup.strategy": "Constraint",
        "pegasus.file.cleanup.constraint.bb.maxspace": "{inputs}",
        "pegasus.file.cleanup.constraint.deferstageins": "true",
    },
}
"""What Pegasus has by itself, by name, and its properties."""
SPARE_BYTES = 1 << 20
"""On the burst buffer, beside the inputs: for what the jobs make."""
LOOKAHEAD = 2
"""Waves ahead of the one that computes: with one, each would wait for HTCondor to start the jobs that clean up."""


def capacity_bytes(job: MapJob) -> int:
    """Return the room that bbflow's waves get: for the one that computes and those ahead."""
    return (1 + LOOKAHEAD) * job.slots * job.input_bytes + SPARE_BYTES


@dataclass(frozen=True)
class Pegasus:
    """Runs the map job by Pegasus on the bed's compute host."""

    bed: Bed
    """The bed."""
    environment: dict[str, str]
    """By which HTCondor is found."""

    def run(self, way: str, job: MapJob, folder: Path) -> tuple[Outcome, int]:
        """Plan and run once in a folder; gives the jobs' times, and the most bytes that lay on the burst buffer."""
        write(way, job, folder)
        # Its constraint knows sizes from such a file alone, and the file from the command line alone.
        sizes = f"-Dpegasus.file.cleanup.constraint.csv={folder / 'sizes.csv'}"
        planner = ["bbflow-pegasus", "plan"] if way in OURS else ["pegasus-plan", sizes]
        words = ["--conf", "pegasus.properties", "--sites", POOL, "--staging-site", f"{POOL}={BB}"]
        said = self._call(folder, *planner, *words, "--output-sites", "local", "--dir", "submit", "workflow.yml")
        found = re.search(r"pegasus-run\s+(/\S+)", said)
        assert found is not None, said
        submit = Path(found[1])
        self._call(folder, "pegasus-run", str(submit))
        most_bytes = _await_end(submit, folder / BB)
        jobs = read_records(open_submit_dir(submit)).jobs.values()
        ended_s = max(ran.ended_s for ran in jobs if ran.kind == "compute")
        staged_s = min(ran.started_s for ran in jobs)
        shift_s = time.monotonic() - time.time()  # Pegasus's times are those of the wall's clock
        return Outcome(staged_s + shift_s, ended_s + shift_s, ()), most_bytes

    def _call(self, folder: Path, *words: str) -> str:
        environment = os.environ | self.environment | {"PEGASUS_CREDENTIALS": str(folder / "credentials.conf")}
        command = inside(self.bed.hosts, "compute", *words)
        done = subprocess.run(command, cwd=folder, env=environment, text=True, capture_output=True, timeout=RUN_S)
        if done.returncode:
            raise RuntimeError(f"{words[0]} ended with {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done.stdout


def _await_end(submit: Path, directory: Path) -> int:
    """Wait for a workflow's end; gives the most bytes that lay in a directory meanwhile."""
    log, until_s, most_bytes = submit / "jobstate.log", time.monotonic() + RUN_S, 0
    while time.monotonic() < until_s:
        most_bytes = max(most_bytes, _bytes_in(directory))
        said = log.read_text() if log.exists() else ""
        if "MONITORD_FINISHED" in said:
            if "DAGMAN_FINISHED 0 " not in said:
                raise RuntimeError(f"the workflow failed: pegasus-analyzer {submit}")
            return most_bytes
        time.sleep(0.5)
    raise RuntimeError(f"the workflow didn't end within {RUN_S:.0f} s: {submit}")


def _bytes_in(directory: Path) -> int:
    total = 0
    for path in directory.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:
            continue
    return total


def write(way: str, job: MapJob, folder: Path) -> None:
    """Write workflow, catalogs and properties of one way of staging."""
    program = folder / "task.sh"
    program.write_text('#!/bin/sh\nwc -c < "$1" > "$2"\nsleep "$3"\n')
    program.chmod(0o755)
    credentials = folder / "credentials.conf"
    credentials.write_text(
        f"[bed]\nendpoint = {ENDPOINT}\nregion = us-east-1\n\n"
        f"[me@bed]\naccess_key = {ACCESS_KEY}\nsecret_key = {SECRET_KEY}\n"
    )
    credentials.chmod(0o600)
    workflow, replicas = Workflow("map"), ReplicaCatalog()
    for number, key in enumerate(job.keys):
        part = File(f"part-{number:03d}").add_metadata(size=str(job.input_bytes))
        counted = File(f"count-{number:03d}").add_metadata(size="64")
        replicas.add_replica("pfs", part, f"s3://me@bed/{BUCKET}/{key}")
        task = Job("task", node_label=key).add_args(part, counted, str(job.compute_s))
        workflow.add_jobs(task.add_inputs(part).add_outputs(counted, stage_out=True, register_replica=False))
    sizes = [
        f"task,{n},file,part-{n:03d},{job.input_bytes}\ntask,{n},file,count-{n:03d},64" for n in range(len(job.keys))
    ]
    (folder / "sizes.csv").write_text("\n".join(["transformation,id,type,filename,length", *sizes, ""]))
    _write_catalogs(way, job, folder, program, credentials)
    workflow.write(str(folder / "workflow.yml"))
    replicas.write(str(folder / "replicas.yml"))


def _write_catalogs(way: str, job: MapJob, folder: Path, program: Path, credentials: Path) -> None:
    def directory(kind: object, name: str) -> Directory:
        url = f"file://{folder / name}"
        return Directory(kind, folder / name).add_file_servers(FileServer(url, Operation.ALL))

    local = Site("local").add_directories(
        directory(Directory.SHARED_SCRATCH, "scratch"), directory(Directory.LOCAL_STORAGE, "results")
    )
    pfs = Site("pfs").add_directories(directory(Directory.SHARED_SCRATCH, "pfs"))
    local.add_env(PEGASUS_CREDENTIALS=str(credentials))
    sites = SiteCatalog().add_sites(local, pfs, Site(POOL).add_pegasus_profile(style="condor"))
    sites.sites[POOL].add_condor_profile(universe="vanilla")
    programs = TransformationCatalog().add_transformations(
        Transformation("task", site=POOL, pfn=str(program), is_stageable=False)
    )
    properties = Properties()
    for kind, name in (("site", "sites"), ("replica", "replicas"), ("transformation", "transformations")):
        properties[f"pegasus.catalog.{kind}.file"] = f"{name}.yml"
    properties["pegasus.catalog.replica"] = "YAML"
    properties["pegasus.data.configuration"] = "nonsharedfs"
    properties["pegasus.integrity.checking"] = "none"
    properties["pegasus.transfer.worker.package.strict"] = "false"
    if way in OURS:
        policy = f"{way}:limit={job.slowdown_limit}" if way == "auto" else way
        buffer = BurstBufferSite(
            folder / BB,
            capacity_bytes(job),
            slots=job.slots,
            lookahead=LOOKAHEAD,
            policy=policy,
            phases=job.board,
            threads=job.fetchers,
            serve_jobs=True,
        )
        buffer.apply(properties, sites, programs)
    else:
        staging = Site(BB).add_directories(directory(Directory.SHARED_SCRATCH, BB))
        sites.add_sites(staging.add_profiles(Namespace.PEGASUS, key="auxillary.local", value="true"))
        for key, value in PLAIN[way].items():
            inputs_bytes = len(job.keys) * job.input_bytes + SPARE_BYTES  # with less, constraint plans nothing
            properties[key] = value.format(tasks=len(job.keys), inputs=inputs_bytes)
    sites.write(str(folder / "sites.yml"))
    programs.write(str(folder / "transformations.yml"))
    properties.write(str(folder / "pegasus.properties"))
