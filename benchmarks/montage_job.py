"""Makes a mosaic, one step after the other, of the tiles in one directory in another; prints how long it took.

Without a workflow manager, so that file systems are compared and nothing else.
"""

import sys
import time
from itertools import chain
from pathlib import Path

from bbflow_workflows.montage import REGION, steps

TOOL = "mProjectPP"


def main() -> None:
    """Make it."""
    survey, output = map(Path, sys.argv[1:])
    begun_s = time.perf_counter()
    make(survey, output)
    print(time.perf_counter() - begun_s)


def make(survey: Path, output: Path) -> None:
    """Run all steps; intermediate files are in ``work`` below the output."""
    region, work = survey / REGION, output / "work"
    tiles = sorted(survey.glob("tile*.fits"))
    names = [tile.name for tile in tiles]
    projected = [_image(work / "projected", name) for name in names]
    flat = [_image(work / "corrected", name) for name in names]
    for tile, image in zip(tiles, projected, strict=True):
        steps.reproject(TOOL, inputs=[tile, region], outputs=image)
    table = work / "images.tbl"
    pairs = steps.overlaps(names, inputs=[pixels for pixels, _ in projected], outputs=[table])
    fits = []
    for first, second in pairs:
        found = work / "differences" / f"{first}-{second}.fits"
        overlap = steps.difference(inputs=[*projected[first], *projected[second], region], outputs=[found])
        fits.append(steps.fit(overlap, inputs=[found]))
    planes = steps.model(pairs, False, fits, inputs=[table])
    for number, (image, corrected) in enumerate(zip(projected, flat, strict=True)):
        steps.correct(planes[number], inputs=image, outputs=corrected)
    mosaic = _image(output, "mosaic.fits")
    steps.add(names, inputs=[*chain(*zip(*flat, strict=True)), region], outputs=mosaic)
    steps.picture(inputs=[mosaic[0]], outputs=[output / "mosaic.png"])


def _image(directory: Path, name: str) -> list[Path]:
    return [directory / name, directory / f"{Path(name).stem}_area.fits"]


if __name__ == "__main__":
    main()
