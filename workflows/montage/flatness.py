"""How flat the mosaic's background is, measured against the known truth."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from astropy.io import fits
from astropy.wcs import WCS
from bbflow_workflows.montage.sky import Truth, stars_on, tile_header
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Flatness:
    """The spread (largest minus smallest) of the tiles' backgrounds, in counts."""

    before: float
    """Of what was added to the tiles."""
    after: float
    """Of what the mosaic shows where the tiles lie."""
    covered: float
    """Share of the mosaic's pixels that some tile covers."""

    @property
    def factor(self) -> float:
        """By how much the spread fell."""
        return self.before / self.after


def measure(mosaic: Path, truth: Truth) -> Flatness:
    """Compare a mosaic with the truth.

    The background is what is left when the known stars are taken away; a tile's is the median over its outline,
    which neither noise nor a star's edge moves. What all tiles have in common isn't a part of it, as no difference of
    tiles knows it: a constant, and where backgrounds have slopes, a plane.

    Parameters
    ----------
    mosaic
        FITS file; NaN where no tile lies.
    truth
        What `make_tiles` returned.
    """
    with fits.open(mosaic) as file:
        header, pixels = file[0].header, np.asarray(file[0].data, dtype="f8")
    levels = np.array(list(_levels(pixels - stars_on(header, truth.survey), header, truth)))
    before = np.ptp([each.offset for each in truth.backgrounds])
    after = np.ptp(_without_common_plane(levels)) if truth.survey.slope else np.ptp(levels[:, 2])
    return Flatness(before.item(), after.item(), np.isfinite(pixels).mean().item())


def _levels(background: NDArray[np.float64], header: fits.Header, truth: Truth) -> Iterator[tuple[float, float, float]]:
    """Yield for each tile the column and row of its middle and the median of the background."""
    rows, columns = np.meshgrid(*map(np.arange, background.shape), indexing="ij")
    sky = WCS(header).all_pix2world(columns.ravel(), rows.ravel(), 0)
    for each in truth.backgrounds:
        x, y = WCS(tile_header(truth.survey, each.name)).all_world2pix(*sky, 0)
        last = truth.survey.pixels - 1
        inside = ((x > 0) & (x < last) & (y > 0) & (y < last)).reshape(background.shape)
        yield columns[inside].mean(), rows[inside].mean(), float(np.nanmedian(background[inside]))


def _without_common_plane(levels: NDArray[np.float64]) -> NDArray[np.float64]:
    terms = np.column_stack([levels[:, :2], np.ones(len(levels))])
    plane, *_ = np.linalg.lstsq(terms, levels[:, 2])
    left: NDArray[np.float64] = levels[:, 2] - terms @ plane
    return left
