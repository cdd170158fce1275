"""The real Montage as a Parsl app and as a Pegasus workflow, on a synthetic survey whose truth is known."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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


_MODULES = {"Flatness": "flatness", "measure": "flatness", "Mosaic": "workflow", "make_mosaic": "workflow"}


def __getattr__(name: str) -> Any:
    """Import what is asked for: a step's process needs neither Parsl nor Astropy, which take longer than most steps."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES.get(name, 'sky')}"), name)
