"""The real Montage as a Parsl app, on a synthetic survey whose truth is known."""

from bbflow_workflows.montage.flatness import Flatness, measure
from bbflow_workflows.montage.sky import REGION, TRUTH, Background, Survey, Truth, make_tiles, read_truth, stars_on
from bbflow_workflows.montage.workflow import Mosaic, make_mosaic

__all__ = [
    "REGION",
    "TRUTH",
    "Background",
    "Flatness",
    "Mosaic",
    "Survey",
    "Truth",
    "make_mosaic",
    "make_tiles",
    "measure",
    "read_truth",
    "stars_on",
]
