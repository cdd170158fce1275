"""A synthetic survey: overlapping tiles of one star field, each with its own known background."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from astropy.io import fits
from astropy.wcs import WCS
from numpy.typing import NDArray

REGION = "region.hdr"
"""The mosaic's header template, beside the tiles."""
TRUTH = "truth.json"
"""The survey and the tiles' backgrounds, beside the tiles."""
STAMP_RADIUS = 8
"""Pixels around a star's centre beyond which it is dark."""


@dataclass(frozen=True, slots=True)
class Survey:
    """What is observed, and how well; the defaults look like 2MASS at the north galactic cap."""

    rows: int = 4
    """Tiles along declination."""
    columns: int = 4
    """Tiles along right ascension."""
    pixels: int = 256
    """Width and height of a tile."""
    overlap: float = 0.2
    """Share of a tile's width that its neighbour sees too."""
    pixel_arcsec: float = 1.0
    """Width of a pixel."""
    ra_deg: float = 192.86
    """Right ascension of the centre."""
    dec_deg: float = 27.13
    """Declination of the centre."""
    stars: int = 400
    """Stars in the whole field."""
    noise: float = 1.0
    """Standard deviation of a pixel, in counts."""
    offset: float = 200.0
    """The tiles' backgrounds lie between minus this and this, in counts."""
    slope: float = 0.0
    """Across a tile the background rises by at most this, in counts, in x and in y."""
    seed: int = 1
    """Of the field, the noise and the backgrounds."""

    def __post_init__(self) -> None:
        for name, least in (("rows", 1), ("columns", 1), ("pixels", 16), ("stars", 0)):
            if getattr(self, name) < least:
                raise ValueError(
                    f"a survey with {name} {getattr(self, name)} can't be made: {least} or more are needed"
                )

    @property
    def step_deg(self) -> float:
        """Distance between the centres of two neighbours."""
        return self.pixels * (1 - self.overlap) * self.pixel_arcsec / 3600


@dataclass(frozen=True, slots=True)
class Background:
    """What the detector added to one tile: offset + slope_x u + slope_y v, u and v from -0.5 to 0.5 across it."""

    name: str
    """The tile's file."""
    offset: float
    """At the tile's centre, in counts."""
    slope_x: float
    """Rise from the first to the last column, in counts."""
    slope_y: float
    """Rise from the first to the last row, in counts."""


@dataclass(frozen=True, slots=True)
class Truth:
    """What a perfect mosaic would know."""

    survey: Survey
    """How the tiles were made."""
    backgrounds: tuple[Background, ...]
    """What was added to each."""


def make_tiles(directory: Path, survey: Survey) -> Truth:
    """Write the tiles, the mosaic's header template and the truth.

    Parameters
    ----------
    directory
        Made if it isn't there; ``tile_R_C.fits``, `REGION` and `TRUTH` are written to it.
    survey
        What is observed.

    Returns
    -------
    Truth
        The same as `read_truth` gives.
    """
    directory.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng((survey.seed, 1))
    backgrounds = tuple(_backgrounds(survey))
    for background in backgrounds:
        header = tile_header(survey, background.name)
        pixels = stars_on(header, survey) + _plane(background, survey.pixels)
        pixels += noise.normal(0, survey.noise, pixels.shape)
        fits.writeto(directory / background.name, pixels.astype("f4"), header, overwrite=True)
    region_header(survey).totextfile(directory / REGION, endcard=True, overwrite=True)
    truth = Truth(survey, backgrounds)
    (directory / TRUTH).write_text(json.dumps(asdict(truth), indent=1))
    return truth


def read_truth(directory: Path) -> Truth:
    """Read what `make_tiles` wrote."""
    content = json.loads((directory / TRUTH).read_text())
    return Truth(Survey(**content["survey"]), tuple(Background(**each) for each in content["backgrounds"]))


def tile_header(survey: Survey, name: str) -> fits.Header:
    """Return the header of a tile: tangent-plane projection about the tile's own centre, a little rotated."""
    row, column = (int(word) for word in Path(name).stem.split("_")[1:])
    # Montage's mProject takes wrong areas where input and output pixels coincide; no telescope is that straight.
    rotation = np.random.default_rng((survey.seed, 2, row, column)).uniform(0.05, 0.5)
    dec = survey.dec_deg + (row - (survey.rows - 1) / 2) * survey.step_deg
    ra = survey.ra_deg - (column - (survey.columns - 1) / 2) * survey.step_deg / np.cos(np.radians(dec))
    header = _header(survey, (survey.pixels, survey.pixels), ra, dec, float(rotation))
    header.update(ORIGIN="bbflow", SURVEY="2MASS-like", FILTER="J", MAGZP=20.9)
    return header


def region_header(survey: Survey) -> fits.Header:
    """Return the header of the mosaic: north up, with a margin of 16 pixels."""
    width, height = (
        int(np.ceil(survey.pixels * (1 + (count - 1) * (1 - survey.overlap)))) + 32
        for count in (survey.columns, survey.rows)
    )
    return _header(survey, (width, height), survey.ra_deg, survey.dec_deg, 0.0)


def _header(survey: Survey, shape: tuple[int, int], ra: float, dec: float, rotation: float) -> fits.Header:
    step = survey.pixel_arcsec / 3600
    header = fits.Header([("SIMPLE", True), ("BITPIX", -32), ("NAXIS", 2), ("NAXIS1", shape[0]), ("NAXIS2", shape[1])])
    header.update(CTYPE1="RA---TAN", CTYPE2="DEC--TAN", EQUINOX=2000.0, CRVAL1=ra, CRVAL2=dec)
    header.update(CRPIX1=(shape[0] + 1) / 2, CRPIX2=(shape[1] + 1) / 2, CDELT1=-step, CDELT2=step, CROTA2=rotation)
    return header


def _backgrounds(survey: Survey) -> Iterator[Background]:
    random = np.random.default_rng((survey.seed, 3))
    for row in range(survey.rows):
        for column in range(survey.columns):
            offset = float(random.uniform(-survey.offset, survey.offset))
            slope_x, slope_y = random.uniform(-survey.slope, survey.slope, 2).tolist()
            yield Background(f"tile_{row}_{column}.fits", offset, slope_x, slope_y)


def _plane(background: Background, pixels: int) -> NDArray[np.float64]:
    across = np.linspace(-0.5, 0.5, pixels)
    plane: NDArray[np.float64] = (
        background.offset + background.slope_x * across[None, :] + background.slope_y * across[:, None]
    )
    return plane


def stars_on(header: fits.Header, survey: Survey) -> NDArray[np.float64]:
    """Return the star field, without noise and background, on the pixels of a header.

    Parameters
    ----------
    header
        Has NAXIS1, NAXIS2 and a celestial projection.
    survey
        Whose field it is.

    Returns
    -------
    ndarray
        Counts, (NAXIS2, NAXIS1).
    """
    image = np.zeros((header["NAXIS2"], header["NAXIS1"]))
    ra, dec, peaks = _star_field(survey)
    columns, rows = WCS(header).all_world2pix(ra, dec, 0)
    for column, row, peak in zip(columns, rows, peaks, strict=True):
        _add_star(image, column, row, peak)
    return image


def _star_field(survey: Survey) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    random = np.random.default_rng((survey.seed, 4))
    half_dec = (survey.rows + 1) / 2 * survey.step_deg
    half_ra = (survey.columns + 1) / 2 * survey.step_deg / np.cos(np.radians(survey.dec_deg))
    ra = survey.ra_deg + random.uniform(-half_ra, half_ra, survey.stars)
    dec = survey.dec_deg + random.uniform(-half_dec, half_dec, survey.stars)
    return ra, dec, 20 * (1 + random.pareto(0.8, survey.stars).clip(max=500))


def _add_star(image: NDArray[np.float64], column: float, row: float, peak: float, sigma: float = 1.1) -> None:
    rows, columns = (
        np.arange(max(round(centre) - STAMP_RADIUS, 0), min(round(centre) + STAMP_RADIUS + 1, size))
        for centre, size in zip((row, column), image.shape, strict=True)
    )
    if rows.size and columns.size:
        squares = (rows[:, None] - row) ** 2 + (columns[None, :] - column) ** 2
        image[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1] += peak * np.exp(-squares / (2 * sigma**2))
