"""Space: which points of a step count, and over which dimensions they are reduced before they are folded over time."""

from bbflow.operators.space.local import Local
from bbflow.operators.space.parse import parse_space
from bbflow.operators.space.placement import Placement
from bbflow.operators.space.space import Space

__all__ = ["Local", "Placement", "Space", "parse_space"]
