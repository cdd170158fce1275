"""The mosaic as a Pegasus workflow: the same steps as the Parsl app's, one program a job.

Nothing here knows of burst buffers: where files lie and when they are staged is the business of Pegasus's catalogs.
"""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from astropy.io import fits
from bbflow_workflows.montage import steps
from bbflow_workflows.montage.jobs import STEPS
from bbflow_workflows.montage.places import Place, below, is_remote
from Pegasus.api import File, Job, ReplicaCatalog, Transformation, TransformationCatalog, Workflow

RESULTS = ("mosaic.fits", "mosaic_area.fits", "mosaic.png")
"""What is staged out."""
_MARGIN, _HEADER_BYTES, _TABLE_BYTES = 16, 8640, 1 << 16
"""Pixels by which a turned tile is wider; room for what isn't pixels, which Montage writes as doubles."""


@dataclass(frozen=True, slots=True)
class Abstract:
    """A workflow that knows no site, and where its inputs lie."""

    workflow: Workflow
    """Jobs and the files between them."""
    replicas: ReplicaCatalog
    """Where the inputs lie, with their sizes."""
    pairs: int
    """Overlapping tiles that are compared."""


def make_abstract(
    tiles: Sequence[Path],
    region: Path,
    scratch: Path,
    tool: str = "mProject",
    levels_only: bool = False,
    survey: Place | None = None,
) -> Abstract:
    """Make the workflow for tiles; which overlap is told by their headers.

    Parameters
    ----------
    tiles
        FITS files.
    region
        Header template of the mosaic.
    scratch
        Where the list of overlaps is written, which is an input too.
    tool
        mProject or mProjectPP.
    levels_only
        Whether the tiles' backgrounds are constants, without slopes.
    survey
        Where tiles and header template are staged from, if not from where these paths are.
    """
    with TemporaryDirectory() as directory:
        names = [tile.name for tile in tiles]
        pairs = steps.overlaps(names, tiles, [Path(directory) / "images.tbl"])
    listed = scratch / "pairs.json"
    listed.write_text(json.dumps(pairs))
    replicas = ReplicaCatalog()
    inputs = {path.name: _input(replicas, path, survey) for path in (*tiles, region)}
    inputs[listed.name] = _input(replicas, listed, None)
    workflow = Workflow("montage")
    workflow.add_jobs(*_jobs(names, pairs, inputs, inputs[region.name], tool, levels_only))
    _tell_sizes(workflow, tiles, region)
    return Abstract(workflow, replicas, len(pairs))


def transformations(python: str, site: str) -> TransformationCatalog:
    """Return the catalog of the steps' programs.

    Parameters
    ----------
    python
        The interpreter that has bbflow and MontagePy, where the jobs run.
    site
        Where they run.
    """
    catalog = TransformationCatalog()
    catalog.add_transformations(
        *(Transformation(name, namespace="montage", site=site, pfn=python, is_stageable=False) for name in STEPS)
    )
    return catalog


def _input(replicas: ReplicaCatalog, path: Path, place: Place | None) -> File:
    file = File(path.name).add_metadata(size=str(path.stat().st_size))
    where = below(path.parent if place is None else place, path.name)
    replicas.add_replica("local", file, where if is_remote(where) else f"file://{where}")
    return file


def _tell_sizes(workflow: Workflow, tiles: Sequence[Path], region: Path) -> None:
    """Declare the most that each file of a job can take: a burst buffer keeps that much room for it."""
    tile = max(math.prod(side + _MARGIN for side in _shape(path)) for path in tiles)
    mosaic = math.prod(_shape(region))
    for job in workflow.jobs.values():
        for output in job.get_outputs():
            image = mosaic if output.lfn in RESULTS else tile
            most_bytes = _TABLE_BYTES if output.lfn.endswith((".json", ".tbl")) else 8 * image + _HEADER_BYTES
            output.add_metadata(size=str(most_bytes))


def _shape(path: Path) -> tuple[int, int]:
    """Return the width and height of a FITS file, or of a header template, in pixels."""
    header = fits.Header.fromtextfile(path) if path.suffix == ".hdr" else fits.getheader(path)
    return int(header["NAXIS1"]), int(header["NAXIS2"])


def _jobs(
    names: Sequence[str],
    pairs: Sequence[tuple[int, int]],
    inputs: dict[str, File],
    region: File,
    tool: str,
    levels_only: bool,
) -> Iterator[Job]:
    projected, flat = [_image("p", name) for name in names], [_image("c", name) for name in names]
    table, planes = File("images.tbl"), File("corrections.json")
    fits = [File(f"fit_{first}_{second}.json") for first, second in pairs]
    for name, image in zip(names, projected, strict=True):
        yield _job("reproject", [inputs[name], region], image, "--tool", tool)
    for (first, second), fit in zip(pairs, fits, strict=True):
        yield _job("difference", [*projected[first], *projected[second], region], [fit])
    yield _job("table", [pixels for pixels, _ in projected], [table])
    words = ["--levels-only"] if levels_only else []
    yield _job("model", [table, inputs["pairs.json"], *fits], [planes], *words)
    for number, (image, corrected) in enumerate(zip(projected, flat, strict=True)):
        yield _job("correct", [*image, planes], corrected, "--number", str(number))
    mosaic, area, drawn = map(File, RESULTS)
    yield _job("add", [*(image[0] for image in flat), *(image[1] for image in flat), region], [mosaic, area])
    yield _job("picture", [mosaic], [drawn])


def _image(prefix: str, name: str) -> list[File]:
    """Name an image and its area image."""
    stem = Path(name).stem
    return [File(f"{prefix}_{stem}.fits"), File(f"{prefix}_{stem}_area.fits")]


def _job(step: str, inputs: Sequence[File], outputs: Sequence[File], *words: str) -> Job:
    job = Job(step, namespace="montage")
    job.add_args("-m", "bbflow_workflows.montage.jobs", step, *words, "--inputs", *inputs, "--outputs", *outputs)
    job.add_inputs(*inputs)
    for file in outputs:
        job.add_outputs(file, stage_out=file.lfn in RESULTS, register_replica=False)
    return job
