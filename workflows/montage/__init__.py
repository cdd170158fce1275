"""The real Montage as a Parsl app and as a Pegasus workflow, on a synthetic survey whose truth is known."""

from typing import TYPE_CHECKING, Any

from bbflow_workflows.montage.flatness import Flatness, measure
from bbflow_workflows.montage.sky import REGION, TRUTH, Background, Survey, Truth, make_tiles, read_truth, stars_on

if TYPE_CHECKING:
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


def __getattr__(name: str) -> Any:
    """Import the Parsl app when it is asked for: a Pegasus job needs no Parsl."""
    if name in ("Mosaic", "make_mosaic"):
        from bbflow_workflows.montage import workflow

        return getattr(workflow, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
