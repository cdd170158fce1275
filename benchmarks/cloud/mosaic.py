"""Montage on files before a bucket 18 MB/s away, beside tmpfs and what users have today."""

import statistics
import sys
from pathlib import Path

from bbflow_workflows.montage import Survey, make_tiles

from benchmarks.cloud.bed import BUCKET, COMPUTE, IO_NODES, PAPER, STORE, Bed, cloud_bed, missing
from benchmarks.cloud.systems import BASELINES, System, baselines, nodes, tmpfs
from benchmarks.rows import Row

SURVEY = "survey"
TILES = Survey(rows=4, columns=4, pixels=420)
"""A mosaic of 17 MB, which Montage writes as doubles."""
QUICK = Survey(rows=2, columns=3, pixels=420)
TMPFS = "tmpfs, tiles there already"
PUT = """
import sys
from pathlib import Path
from bbflow.staging import Sources
for path in Path(sys.argv[1]).iterdir():
    with Sources().create(f"{sys.argv[2]}/{path.name}") as file:
        file.write(path.read_bytes())
"""


def measure(quick: bool = False) -> list[Row]:
    """Make the mosaic on each file system that this machine has, each time with caches that are empty."""
    if reason := missing():
        print(f"not measured: {reason}")
        return []
    systems: dict[str, System] = {
        TMPFS: tmpfs,
        "bbflow mount, IOnode of the own host": nodes(COMPUTE[:1]),
        "bbflow mount, IOnode of the own host, no passthrough": nodes(COMPUTE[:1], "--no-passthrough"),
        "bbflow mount, IOnode of the own host, processors kept awake": nodes(COMPUTE[:1], "--keep-awake"),
        "bbflow mount, 2 IOnodes elsewhere": nodes(IO_NODES[:2]),
        **baselines(),
    }
    times: dict[str, list[float]] = {name: [] for name in systems}
    mosaics = set()
    with cloud_bed(PAPER) as bed:
        tiles = bed.folder / SURVEY
        make_tiles(tiles, QUICK if quick else TILES)
        bed.call(STORE, sys.executable, "-c", PUT, str(tiles), f"s3://{BUCKET}/{SURVEY}")
        for number in range(1 if quick else 3):
            for name, system in systems.items():
                try:
                    spent_s, mosaic = _make(bed, system, f"out-{list(systems).index(name)}-{number}")
                except RuntimeError as error:
                    if name not in BASELINES:
                        raise
                    print(f"{name} can't do it, round {number + 1}: {error}")
                    continue
                times[name].append(spent_s)
                mosaics.add(mosaic)
    assert len(mosaics) == 1, "the mosaics differ"
    base_s = statistics.median(times[TMPFS])
    middle = {name: statistics.median(spent_s) for name, spent_s in times.items() if spent_s}
    return [Row(name, spent_s, "s", spent_s / base_s) for name, spent_s in middle.items()]


def _make(bed: Bed, system: System, output: str) -> tuple[float, bytes]:
    """Return the seconds that it took, and the mosaic as the bucket has it once all is written back."""
    with system(bed) as mount, mount(COMPUTE[0]) as client:
        survey = bed.folder / SURVEY if system is tmpfs else client.directory / SURVEY
        words = [sys.executable, "-m", "benchmarks.montage_job", str(survey), str(client.directory / output)]
        spent_s = float(client.ask("run", words, str(Path.cwd())))
        made = (client.directory if system is tmpfs else bed.bucket) / output / "mosaic.fits"
        if system is tmpfs:
            return spent_s, made.read_bytes()
    return spent_s, made.read_bytes()
