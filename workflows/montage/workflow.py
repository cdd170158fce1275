"""The mosaic as a Parsl app: reproject, overlaps, difference, fit, model, correct, co-add, picture.

Nothing here knows of burst buffers, nor of buckets: where files lie and when they are staged is the business of Parsl's
configuration.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bbflow_workflows.montage import steps
from bbflow_workflows.montage.places import Place, below, named
from parsl import python_app
from parsl.app.futures import DataFuture
from parsl.data_provider.files import File
from parsl.dataflow.futures import AppFuture

reproject = python_app(steps.reproject)
overlaps = python_app(steps.overlaps)
difference = python_app(steps.difference)
fit = python_app(steps.fit)
model = python_app(steps.model)
correct = python_app(steps.correct)
add = python_app(steps.add)
picture = python_app(steps.picture)


@dataclass(frozen=True, slots=True)
class SkyImage:
    """An image and how much of each pixel it saw."""

    name: str
    """The tile's file name."""
    pixels: File | DataFuture
    """Counts."""
    area: File | DataFuture
    """Seen part of each pixel, in steradian."""

    @classmethod
    def at(cls, directory: Place, name: str) -> "SkyImage":
        """Name the two files of an image."""
        stem = Path(name).stem
        return cls(name, File(below(directory, name)), File(below(directory, f"{stem}_area.fits")))

    @property
    def files(self) -> list[File | DataFuture]:
        """Both files."""
        return [self.pixels, self.area]


@dataclass(frozen=True, slots=True)
class Mosaic:
    """What the workflow leaves: paths, or URLs if the output is one."""

    image: str
    """FITS file; NaN where no tile lies."""
    area: str
    """FITS file with the area that was seen of each pixel, in steradian."""
    picture: str
    """PNG."""
    pairs: int
    """Overlapping tiles that were compared."""
    blank: int
    """Of them, without a common pixel."""


def make_mosaic(
    tiles: Sequence[Place],
    region: Place,
    output: Place,
    tool: str = "mProject",
    levels_only: bool = False,
    events: Place | None = None,
) -> Mosaic:
    """Make a mosaic of tiles with a flat background; Parsl must be loaded.

    Parameters
    ----------
    tiles
        FITS files: paths, or URLs if Parsl's configuration stages them.
    region
        Header template of the mosaic.
    output
        Directory of the mosaic, or its URL; intermediate files are in ``work`` below it.
    tool
        mProject or mProjectPP.
    levels_only
        Whether the tiles' backgrounds are constants, without slopes.
    events
        Directory where each step notes what it did; nowhere if None.

    Raises
    ------
    Exception
        What Parsl gives when a step failed; the message has Montage's words.
    """
    work, header = below(output, "work"), File(named(region))
    noting = {} if events is None else {"events": named(events)}
    sources = [File(named(tile)) for tile in tiles]
    projected = [SkyImage.at(below(work, "projected"), source.filename) for source in sources]
    tasks = [
        reproject(tool, inputs=[source, header], outputs=image.files, **noting)
        for source, image in zip(sources, projected, strict=True)
    ]
    ready = [_made(image, task) for image, task in zip(projected, tasks, strict=True)]
    names = [image.name for image in ready]
    listed = [File(below(work, "images.tbl"))]
    table = overlaps(names, inputs=[image.pixels for image in ready], outputs=listed, **noting)
    pairs = table.result()
    fits = _fits([(ready[first], ready[second]) for first, second in pairs], header, below(work, "differences"), noting)
    fitted = [each.result() for each in fits]
    planes = model(pairs, levels_only, fitted, inputs=[table.outputs[0]], **noting).result()
    flat = [_corrected(image, planes[number], below(work, "corrected"), noting) for number, image in enumerate(ready)]
    return _finish(flat, header, output, noting, (len(pairs), fitted.count(None)))


def _fits(
    pairs: Sequence[tuple[SkyImage, SkyImage]], header: File, directory: Place, noting: Mapping[str, str]
) -> list[AppFuture]:
    tasks = []
    for first, second in pairs:
        found = File(below(directory, f"{Path(first.name).stem}-{second.name}"))
        task = difference(inputs=[*first.files, *second.files, header], outputs=[found], **noting)
        tasks.append(fit(task, inputs=[task.outputs[0]], **noting))
    return tasks


def _corrected(image: SkyImage, background: steps.Plane, directory: Place, noting: Mapping[str, str]) -> SkyImage:
    flat = SkyImage.at(directory, image.name)
    return _made(flat, correct(background, inputs=image.files, outputs=flat.files, **noting))


def _finish(
    flat: Sequence[SkyImage], header: File, output: Place, noting: Mapping[str, str], counted: tuple[int, int]
) -> Mosaic:
    mosaic, drawn = SkyImage.at(output, "mosaic.fits"), below(output, "mosaic.png")
    inputs = [*(image.pixels for image in flat), *(image.area for image in flat), header]
    added = add([image.name for image in flat], inputs=inputs, outputs=mosaic.files, **noting)
    shown = picture(inputs=[added.outputs[0]], outputs=[File(drawn)], **noting)
    for future in (added, *added.outputs, shown, *shown.outputs):
        future.result()
    return Mosaic(below(output, "mosaic.fits"), below(output, "mosaic_area.fits"), drawn, *counted)


def _made(image: SkyImage, task: AppFuture) -> SkyImage:
    """Return the image as what a task will have made."""
    return SkyImage(image.name, *task.outputs)
