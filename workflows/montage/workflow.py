"""The mosaic as a Parsl app: reproject, overlaps, difference, fit, model, correct, co-add, picture.

Nothing here knows of burst buffers: where files lie and when they are staged is the business of Parsl's configuration.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bbflow_workflows.montage import steps
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
class Image:
    """An image and how much of each pixel it saw."""

    name: str
    """The tile's file name."""
    pixels: File | DataFuture
    """Counts."""
    area: File | DataFuture
    """Seen part of each pixel, in steradian."""

    @classmethod
    def at(cls, directory: Path, name: str) -> "Image":
        """Name the two files of an image."""
        stem = Path(name).stem
        return cls(name, File(str(directory / name)), File(str(directory / f"{stem}_area.fits")))

    @property
    def files(self) -> list[File | DataFuture]:
        """Both files."""
        return [self.pixels, self.area]


@dataclass(frozen=True, slots=True)
class Mosaic:
    """What the workflow leaves."""

    image: Path
    """FITS file; NaN where no tile lies."""
    area: Path
    """FITS file with the area that was seen of each pixel, in steradian."""
    picture: Path
    """PNG."""
    pairs: int
    """Overlapping tiles that were compared."""
    blank: int
    """Of them, without a common pixel."""


def make_mosaic(
    tiles: Sequence[Path], region: Path, output: Path, tool: str = "mProject", levels_only: bool = False
) -> Mosaic:
    """Make a mosaic of tiles with a flat background; Parsl must be loaded.

    Parameters
    ----------
    tiles
        FITS files.
    region
        Header template of the mosaic.
    output
        Directory of the mosaic; intermediate files are in ``work`` below it.
    tool
        mProject or mProjectPP.
    levels_only
        Whether the tiles' backgrounds are constants, without slopes.

    Raises
    ------
    Exception
        What Parsl gives when a step failed; the message has Montage's words.
    """
    work, header = output.absolute() / "work", File(str(region.absolute()))
    projected = [Image.at(work / "projected", tile.name) for tile in tiles]
    sources = [File(str(tile.absolute())) for tile in tiles]
    tasks = [
        reproject(tool, inputs=[source, header], outputs=image.files)
        for source, image in zip(sources, projected, strict=True)
    ]
    ready = [_made(image, task) for image, task in zip(projected, tasks, strict=True)]
    names = [image.name for image in ready]
    table = overlaps(names, inputs=[image.pixels for image in ready], outputs=[File(str(work / "images.tbl"))])
    pairs = table.result()
    fits = _fits([(ready[first], ready[second]) for first, second in pairs], header, work / "differences")
    planes = model(pairs, levels_only, [each.result() for each in fits], inputs=[table.outputs[0]]).result()
    flat = [_corrected(image, planes[number], work / "corrected") for number, image in enumerate(ready)]
    return _finish(flat, header, output.absolute(), len(pairs), sum(each.result() is None for each in fits))


def _fits(pairs: Sequence[tuple[Image, Image]], header: File, directory: Path) -> list[AppFuture]:
    tasks = []
    for first, second in pairs:
        found = File(str(directory / f"{Path(first.name).stem}-{second.name}"))
        task = difference(inputs=[*first.files, *second.files, header], outputs=[found])
        tasks.append(fit(task, inputs=[task.outputs[0]]))
    return tasks


def _corrected(image: Image, background: steps.Plane, directory: Path) -> Image:
    flat = Image.at(directory, image.name)
    return _made(flat, correct(background, inputs=image.files, outputs=flat.files))


def _finish(flat: Sequence[Image], header: File, output: Path, pairs: int, blank: int) -> Mosaic:
    mosaic, drawn = Image.at(output, "mosaic.fits"), output / "mosaic.png"
    inputs = [*(image.pixels for image in flat), *(image.area for image in flat), header]
    added = add([image.name for image in flat], inputs=inputs, outputs=mosaic.files)
    shown = picture(inputs=[added.outputs[0]], outputs=[File(str(drawn))])
    for future in (added, *added.outputs, shown, *shown.outputs):
        future.result()
    return Mosaic(output / "mosaic.fits", output / "mosaic_area.fits", drawn, pairs, blank)


def _made(image: Image, task: AppFuture) -> Image:
    """Give the image as what a task will have made."""
    return Image(image.name, *task.outputs)
