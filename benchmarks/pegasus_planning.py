"""What waves cost when a workflow of 10,000 jobs is planned: CPU and wall time beside the plain plan's.

`python -m benchmarks.pegasus_planning --repeat 3` needs Pegasus 5 and HTCondor's programs on PATH.
"""

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bbflow_pegasus import BurstBufferSite
from Pegasus.api import Properties, SiteCatalog, TransformationCatalog

TILE_BYTES, IMAGE_BYTES, SMALL_BYTES = 2_000_000, 4_000_000, 300
PROGRAMS = ("pegasus-plan", "condor_submit_dag")
PLAIN, REFINED, WAVE = "plain plan", "bbflow-pegasus plan", "bbflow-pegasus wave"


@dataclass(frozen=True)
class Cost:
    """Of one command, with all that it started."""

    cpu_s: float
    """User and system time."""
    wall_s: float
    """From begin to end."""


class Shape:
    """Montage's shape: each tile is reprojected, compared to three others, and corrected by one model of all.

    Parameters
    ----------
    tiles
        How many; five times as many jobs come of it.
    """

    def __init__(self, tiles: int) -> None:
        self.jobs: list[dict[str, Any]] = []
        self._makers: dict[str, str] = {}
        pairs = [(n, (n + step) % tiles) for n in range(tiles) for step in (1, 2, 3)]
        self.tiles = [f"tile-{n}.fits" for n in range(tiles)]
        for n, tile in enumerate(self.tiles):
            self._job(f"project-{n}", [tile, "region.hdr"], {f"p-{n}.fits": IMAGE_BYTES})
        for first, second in pairs:
            images = [f"p-{first}.fits", f"p-{second}.fits"]
            self._job(f"diff-{first}-{second}", images, {f"fit-{first}-{second}.txt": SMALL_BYTES})
        fits = [f"fit-{first}-{second}.txt" for first, second in pairs]
        self._job("model", fits, {"corrections.tbl": SMALL_BYTES})
        for n in range(tiles):
            self._job(f"correct-{n}", [f"p-{n}.fits", "corrections.tbl"], {f"c-{n}.fits": IMAGE_BYTES})
        self._job("add", [f"c-{n}.fits" for n in range(tiles)], {"mosaic.fits": tiles * IMAGE_BYTES})

    def _job(self, name: str, inputs: list[str], outputs: dict[str, int]) -> None:
        uses: list[dict[str, Any]] = [{"lfn": file, "type": "input"} for file in inputs]
        for file, size in outputs.items():
            use = {"lfn": file, "type": "output", "stageOut": file == "mosaic.fits", "registerReplica": False}
            uses.append(use | {"metadata": {"size": str(size)}})
            self._makers[file] = name
        self.jobs.append({"type": "job", "name": "work", "id": name, "arguments": [name], "uses": uses})

    def write(self, folder: Path) -> None:
        """Write the workflow and its replica catalog."""
        children: dict[str, list[str]] = defaultdict(list)
        for job in self.jobs:
            makers = {self._makers[use["lfn"]] for use in job["uses"] if use["lfn"] in self._makers}
            for maker in sorted(makers - {job["id"]}):
                children[maker].append(job["id"])
        waiting = [{"id": name, "children": each} for name, each in children.items()]
        sizes = dict.fromkeys(self.tiles, TILE_BYTES) | {"region.hdr": SMALL_BYTES}
        replicas = [
            {"lfn": name, "pfns": [{"site": "local", "pfn": f"file:///pfs/{name}"}], "metadata": {"size": str(size)}}
            for name, size in sizes.items()
        ]
        workflow = {"pegasus": "5.0", "name": "large", "jobs": self.jobs, "jobDependencies": waiting}
        (folder / "workflow.yml").write_text(json.dumps(workflow))
        (folder / "replicas.yml").write_text(json.dumps({"pegasus": "5.0", "replicas": replicas}))


def write_catalogs(folder: Path, buffer: BurstBufferSite) -> None:
    """Write what `bbflow-pegasus config` would have written; it does no harm to the plain plan."""
    from Pegasus.api import Directory, FileServer, Operation, Site, Transformation

    def directory(kind: object, name: str) -> Directory:
        return Directory(kind, folder / name).add_file_servers(FileServer(f"file://{folder / name}", Operation.ALL))

    local = Site("local").add_directories(
        directory(Directory.SHARED_SCRATCH, "scratch"), directory(Directory.LOCAL_STORAGE, "results")
    )
    compute = Site("condorpool").add_pegasus_profile(style="condor").add_condor_profile(universe="vanilla")
    sites, properties = SiteCatalog().add_sites(local, compute), Properties()
    program = Transformation("work", site="condorpool", pfn="/bin/true", is_stageable=False)
    programs = TransformationCatalog().add_transformations(program)
    for kind, name in (("site", "sites"), ("replica", "replicas"), ("transformation", "transformations")):
        properties[f"pegasus.catalog.{kind}.file"] = f"{name}.yml"
    properties["pegasus.catalog.replica"] = "YAML"
    buffer.apply(properties, sites, programs)
    sites.write(str(folder / "sites.yml"))
    programs.write(str(folder / "transformations.yml"))
    properties.write(str(folder / "pegasus.properties"))


def cost_of(words: list[str], folder: Path) -> Cost:
    """Run a command to its end."""
    before, begun_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    after, ended_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    if done.returncode:
        raise RuntimeError(f"{words[0]} ended with {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return Cost(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, ended_s - begun_s)


def repetition(folder: Path, number: int) -> dict[str, Cost]:
    """Plan in each way, the first of them in its turn."""
    options = ["--conf", "pegasus.properties", "--sites", "condorpool", "--staging-site", "condorpool=bb"]
    options += ["--output-sites", "local"]
    ours = str(Path(sys.executable).with_name("bbflow-pegasus"))
    planners = {PLAIN: ["pegasus-plan"], REFINED: [ours, "plan"]}
    costs = {}
    for way in sorted(planners, reverse=bool(number % 2)):
        submit = f"{way.replace(' ', '-')}-{number}"
        costs[way] = cost_of([*planners[way], *options, "--dir", submit, "workflow.yml"], folder)
    planned = next((folder / f"plain-plan-{number}").rglob("braindump.yml")).parent
    costs[WAVE] = cost_of([ours, "wave", str(planned)], folder)
    return costs


def main() -> int:
    """Measure, and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--tiles", type=int, default=2000, help="jobs are five times as many (default: %(default)s)")
    options = parser.parse_args()
    reason = next((f"{name} isn't on PATH" for name in PROGRAMS if shutil.which(name) is None), None)
    if reason:
        print(f"pegasus_planning: left out: {reason}")
        return 0
    with tempfile.TemporaryDirectory(prefix="bbflow-planning-") as name:
        folder, shape = Path(name), Shape(options.tiles)
        shape.write(folder)
        # Room for a tenth of the tiles beside all that must be kept for the end.
        capacity_bytes = 3 * options.tiles * IMAGE_BYTES + options.tiles * TILE_BYTES // 10
        write_catalogs(folder, BurstBufferSite(folder / "bb", capacity_bytes, slots=64))
        runs = [repetition(folder, number) for number in range(options.repeat)]
    medians = {
        way: Cost(*(statistics.median(getattr(run[way], key) for run in runs) for key in ("cpu_s", "wall_s")))
        for way in runs[0]
    }
    print(f"{len(shape.jobs)} jobs, medians of {options.repeat}, load {os.getloadavg()[0]:.1f}")
    for way, cost in medians.items():
        print(f"{way}: {cost.cpu_s:.1f} s of CPU, {cost.wall_s:.1f} s")
    print(f"CPU of {REFINED} to {PLAIN}: {medians[REFINED].cpu_s / medians[PLAIN].cpu_s:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
