"""The steps of Montage, each as one function that a worker runs: files in, files out.

Files arrive in any directory under any name, as a staging provider pleases; Montage finds the area image of
``name.fits`` as ``name_area.fits`` beside it. So each step works on links, in a directory of this host: there may
be no symbolic links where the files lie.
"""

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bbflow_workflows.montage.noting import noted
from MontagePy import main as montage

BLANK = "All pixels are blank."
"""mDiff of two images whose outlines overlap, but not their pixels."""
FIT_COLUMNS = (
    *("plus", "minus", "a", "b", "c", "crpix1", "crpix2", "xmin", "xmax", "ymin", "ymax", "xcenter", "ycenter"),
    *("npixel", "rms", "boxx", "boxy", "boxwidth", "boxheight", "boxang"),
)
"""Of the table that mBgModel reads."""
PathLike = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class Plane:
    """A background a x + b y + c, x and y in pixels from the projection's reference point."""

    a: float
    """Counts a pixel."""
    b: float
    """Counts a pixel."""
    c: float
    """Counts."""


@noted
def reproject(tool: str, inputs: Sequence[PathLike], outputs: Sequence[PathLike]) -> None:
    """Bring a tile onto the mosaic's pixels.

    Parameters
    ----------
    tool
        mProject, or the faster mProjectPP, for tangent-plane projections only.
    inputs
        The tile, the mosaic's header template.
    outputs
        The image and its area image.
    """
    tile, region = inputs
    with _scratch(outputs) as (links, directory):
        image = directory / "image.fits"
        _run(tool, str(_link(links, "tile.fits", tile)), str(image), str(_link(links, "region.hdr", region)))
        _deliver(image, outputs)


@noted
def overlaps(names: Sequence[str], inputs: Sequence[PathLike], outputs: Sequence[PathLike]) -> list[tuple[int, int]]:
    """Find which images see the same sky, by their headers.

    Parameters
    ----------
    names
        Of the images; an image's number in all tables is its place here.
    inputs
        The images.
    outputs
        Montage's table of the images.

    Returns
    -------
    list of (int, int)
        The numbers of each two that overlap.
    """
    with _scratch(outputs) as (links, directory):
        table, pairs = directory / "images.tbl", links / "pairs.tbl"
        _tabulate(links, names, inputs, table)
        _run("mOverlaps", str(table), str(pairs))
        table.replace(outputs[0])
        return [(int(row["cntr1"]), int(row["cntr2"])) for row in read_table(pairs)]


@noted
def difference(inputs: Sequence[PathLike], outputs: Sequence[PathLike]) -> bool:
    """Subtract the second image from the first where both have pixels.

    Parameters
    ----------
    inputs
        Two images, each followed by its area image, and the header template.
    outputs
        The difference.

    Returns
    -------
    bool
        False if they share no pixel; the output is empty then.
    """
    with _scratch(outputs) as (links, directory):
        first = _pair(links, "first", inputs[0:2])
        second = _pair(links, "second", inputs[2:4])
        found, region = directory / "difference.fits", _link(links, "region.hdr", inputs[4])
        answer = _call("mDiff", str(first), str(second), str(found), str(region))
        if answer.get("msg") == BLANK:
            found.touch()
        else:
            _check("mDiff", answer, inputs)
        found.replace(outputs[0])
        return Path(outputs[0]).stat().st_size > 0


@noted
def fit(overlap: bool, inputs: Sequence[PathLike]) -> dict[str, float] | None:
    """Fit a plane to a difference; None if `difference` found no pixel."""
    if not overlap:
        return None
    with tempfile.TemporaryDirectory() as scratch:
        answer = _run("mFitplane", str(_link(Path(scratch), "difference.fits", inputs[0])))
    return {name: float(answer[name]) for name in FIT_COLUMNS[2:]}


@noted
def model(
    pairs: Sequence[tuple[int, int]],
    levels_only: bool,
    fits: Sequence[Mapping[str, float] | None],
    inputs: Sequence[PathLike],
) -> dict[int, Plane]:
    """Find the background of each image that explains all differences best.

    Parameters
    ----------
    pairs
        What `overlaps` returned.
    levels_only
        Whether the backgrounds are constants, without slopes.
    fits
        What `fit` returned for each pair.
    inputs
        The table of the images.

    Returns
    -------
    dict
        Background to subtract, by the image's number.
    """
    with tempfile.TemporaryDirectory() as scratch:
        found, corrections = Path(scratch) / "fits.tbl", Path(scratch) / "corrections.tbl"
        rows = [[*pair, *each.values()] for pair, each in zip(pairs, fits, strict=True) if each is not None]
        _write_table(found, FIT_COLUMNS, rows)
        _run("mBgModel", os.fspath(inputs[0]), str(found), str(corrections), noslope=levels_only)
        return {int(row["id"]): Plane(*(float(row[name]) for name in "abc")) for row in read_table(corrections)}


@noted
def correct(background: Plane, inputs: Sequence[PathLike], outputs: Sequence[PathLike]) -> None:
    """Subtract a background from an image.

    Parameters
    ----------
    background
        One of `model`'s.
    inputs
        The image and its area image.
    outputs
        The corrected ones.
    """
    with _scratch(outputs) as (links, directory):
        image, corrected = _pair(links, "image", inputs), directory / "corrected.fits"
        _run("mBackground", str(image), str(corrected), background.a, background.b, background.c)
        _deliver(corrected, outputs)


@noted
def add(names: Sequence[str], inputs: Sequence[PathLike], outputs: Sequence[PathLike]) -> None:
    """Co-add images to the mosaic, weighted by their area images.

    Parameters
    ----------
    names
        Of the images.
    inputs
        All images, all area images, the header template.
    outputs
        The mosaic and its area image.
    """
    count = len(names)
    with _scratch(outputs) as (links, directory):
        table, mosaic = links / "images.tbl", directory / "mosaic.fits"
        images = _tabulate(links, names, inputs[:count], table)
        for name, area in zip(names, inputs[count : 2 * count], strict=True):
            _link(images, _area(name), area)
        region = _link(links, "region.hdr", inputs[-1])
        _run("mAdd", str(images), str(table), str(region), str(mosaic), haveAreas=True)
        _deliver(mosaic, outputs)


@noted
def picture(inputs: Sequence[PathLike], outputs: Sequence[PathLike]) -> None:
    """Draw a mosaic as a PNG in grey, stretched so that faint structure shows."""
    with _scratch(outputs) as (links, directory):
        drawn = directory / "mosaic.png"
        words = f"-ct 1 -gray {_link(links, 'mosaic.fits', inputs[0])} -2s max gaussian-log"
        _run("mViewer", words, str(drawn), mode=2)
        drawn.replace(outputs[0])


def read_table(path: Path) -> list[dict[str, str]]:
    """Read an IPAC table without empty cells: its rows by column name."""
    lines = path.read_text().splitlines()
    heads = [line for line in lines if line.startswith("|")]
    names = [name.strip() for name in heads[0].strip("|").split("|")]
    rows = [line.split() for line in lines if line.strip() and line[0] not in "|\\"]
    return [dict(zip(names, row, strict=True)) for row in rows]


def _write_table(path: Path, names: Sequence[str], rows: Sequence[Sequence[float]]) -> None:
    lines = ["|" + "|".join(f"{name:^22}" for name in names) + "|"]
    lines += ["".join(f" {value:22.14g}" for value in row) + " " for row in rows]
    path.write_text("\n".join(lines) + "\n")


def _tabulate(directory: Path, names: Sequence[str], inputs: Sequence[PathLike], table: Path) -> Path:
    """Write Montage's table of images, numbered in the order of their names; return the directory of links to them."""
    images = directory / "images"
    images.mkdir()
    for name, image in zip(names, inputs, strict=True):
        _link(images, name, image)
    listed = directory / "names.tbl"
    width = max(map(len, names)) + 2
    rows = [f"|{'fname':^{width}}|", f"|{'char':^{width}}|", *(f" {name:<{width}} " for name in names)]
    listed.write_text("\n".join(rows) + "\n")
    answer = _run("mImgtbl", str(images), str(table), imgListFile=str(listed))
    if int(answer["count"]) != len(names):
        raise RuntimeError(f"mImgtbl found {answer['count']} of {len(names)} images in order: {answer}")
    return images


@contextmanager
def _scratch(outputs: Sequence[PathLike]) -> Iterator[tuple[Path, Path]]:
    """Yield a directory for links, and one on the file system of the outputs, so that moving them is renaming."""
    first, *others = dict.fromkeys(Path(output).absolute().parent for output in outputs)
    for parent in (first, *others):
        parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as links, tempfile.TemporaryDirectory(dir=first, prefix=".montage-") as made:
        yield Path(links), Path(made)


def _link(directory: Path, name: str, target: PathLike) -> Path:
    path = directory / name
    path.symlink_to(Path(target).absolute())
    return path


def _pair(directory: Path, stem: str, pair: Sequence[PathLike]) -> Path:
    image, area = pair
    _link(directory, f"{stem}_area.fits", area)
    return _link(directory, f"{stem}.fits", image)


def _deliver(image: Path, outputs: Sequence[PathLike]) -> None:
    image.replace(outputs[0])
    image.with_name(_area(image.name)).replace(outputs[1])


def _area(name: str) -> str:
    return f"{name.removesuffix('.fits')}_area.fits"


def _run(tool: str, *arguments: Any, **options: Any) -> dict[str, Any]:
    answer = _call(tool, *arguments, **options)
    _check(tool, answer, arguments)
    return answer


def _call(tool: str, *arguments: Any, **options: Any) -> dict[str, Any]:
    answer: dict[str, Any] = getattr(montage, tool)(*arguments, **options)
    return {key: value.decode() if isinstance(value, bytes) else value for key, value in answer.items()}


def _check(tool: str, answer: Mapping[str, Any], on: Sequence[Any]) -> None:
    if answer["status"] != "0":
        # Links stand for the files: of those the user knows the names.
        names = ", ".join(os.path.realpath(each) if os.path.islink(each) else str(each) for each in map(str, on))
        raise RuntimeError(f"{tool} failed: {answer.get('msg') or 'it gives no reason'} (on {names})")
