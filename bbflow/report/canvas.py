"""The only module that imports matplotlib: figures without a display, and how all of them look."""

from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import BoundaryNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator

__all__ = ["BLUE", "GREEN", "GREY", "INK", "ORANGE", "PURPLE", "WIDTH_IN", "Array", "Axes", "Figure"]

Array = np.ndarray[Any, Any]

WIDTH_IN = 8.6
"""Width of every picture, in inches: text has one size all over the report."""

INK, GREY = "#24303c", "#8a949e"
BLUE, ORANGE, GREEN, PURPLE = "#0072b2", "#d55e00", "#009e73", "#8d5a97"
"""Okabe and Ito's colours, which colour-blind readers tell apart."""

_STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "axes.titlesize": 8.5,
    "axes.titlelocation": "left",
    "axes.titlepad": 4,
    "axes.labelsize": 8,
    "axes.linewidth": 0.6,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "text.color": INK,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "text.parse_math": False,  # units and names are the user's, and may hold a $
    "legend.frameon": False,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
}

_ENDS: dict[tuple[bool, bool], Literal["neither", "min", "max", "both"]] = {
    (False, False): "neither",
    (True, False): "min",
    (False, True): "max",
    (True, True): "both",
}
"""How a scale ends if values lie below, or above it."""


@contextmanager
def figure(height_in: float) -> Iterator[Figure]:
    """Yield an empty figure in the report's style, which holds inside the `with`.

    Parameters
    ----------
    height_in
        Inches; the width is `WIDTH_IN`.
    """
    with mpl.rc_context(_STYLE):
        # Not by pyplot, which keeps each figure until it is closed, and asks for a display's toolkit.
        canvas = Figure(figsize=(WIDTH_IN, height_in), layout="constrained")
        FigureCanvasAgg(canvas)
        yield canvas


def to_png(drawing: Figure) -> bytes:
    """Render a figure finely enough for print."""
    image = BytesIO()
    drawing.savefig(image, format="png", dpi=170)
    return image.getvalue()


def bands(lowest: float, highest: float, symmetric: bool) -> Array:
    """Divide a range into ten to twenty bands with round edges; the range of a constant is widened.

    Parameters
    ----------
    lowest, highest
        Of the values to show.
    symmetric
        Whether zero is to lie in the middle.
    """
    if symmetric:
        highest = max(abs(lowest), abs(highest))
        lowest = -highest
    return np.asarray(MaxNLocator(nbins=18, steps=[1, 2, 2.5, 5, 10]).tick_values(lowest, highest))


def draw_bands(axes: Axes, x_edges: Array, y_edges: Array, values: Array, edges: Array, colours: str) -> Any:
    """Colour the cells of a grid by the band their value lies in; cells without a value stay grey.

    Parameters
    ----------
    axes
        To draw on.
    x_edges, y_edges
        Edges of the cells; one more than `values` has columns and rows.
    values
        Shape (rows, columns).
    edges
        Of the bands.
    colours
        Name of a colour map.

    Returns
    -------
    QuadMesh
        For `add_scale`.
    """
    colour_map = mpl.colormaps[colours]
    present = values[np.isfinite(values)]
    beyond = bool((present < edges[0]).any()), bool((present > edges[-1]).any())
    norm = BoundaryNorm(edges, colour_map.N, extend=_ENDS[beyond])
    axes.set_facecolor("#d9dcdf")
    return axes.pcolormesh(x_edges, y_edges, np.ma.masked_invalid(values), cmap=colour_map, norm=norm, rasterized=True)


def add_scale(drawing: Figure, mesh: Any, beside: list[Axes], label: str) -> None:
    """Put a colour scale to the right of some axes."""
    scale = drawing.colorbar(mesh, ax=beside, fraction=0.05, pad=0.015, aspect=14, spacing="uniform")
    scale.ax.yaxis.set_major_locator(FixedLocator(list(mesh.norm.boundaries[_first_round(mesh.norm.boundaries) :: 2])))
    scale.outline.set_linewidth(0.4)
    scale.set_label(label)


def _first_round(edges: Array) -> int:
    """Return 0 if the even edges of bands are the rounder ones, 1 if the odd ones are."""
    ratio = edges[0] / (edges[1] - edges[0])
    return round(float(ratio)) % 2
