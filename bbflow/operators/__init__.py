"""Climate operators: statistics and filters that fold steps, batch by batch, in one pass over the data."""

from bbflow.operators.filter import Filter
from bbflow.operators.fold import fold_steps
from bbflow.operators.operator import Operator
from bbflow.operators.parse import parse_operators
from bbflow.operators.state import StateLayout

__all__ = ["Filter", "Operator", "StateLayout", "fold_steps", "parse_operators"]
