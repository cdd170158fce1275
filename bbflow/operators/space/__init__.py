"""Space: which points of a step count, and over which dimensions they are reduced before they are folded over time."""

from bbflow.operators.space.columns import Column
from bbflow.operators.space.parse_spaces import parse_space
from bbflow.operators.space.placement import Local, Placement
from bbflow.operators.space.pyramids import Pyramid
from bbflow.operators.space.space import Space

__all__ = ["Column", "Local", "Placement", "Pyramid", "Space", "parse_space"]
