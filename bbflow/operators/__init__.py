"""Climate operators: statistics and filters that fold steps, batch by batch, in one pass over the data."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bbflow.operators.filter import Filter
    from bbflow.operators.fold import fold_steps
    from bbflow.operators.operator import Operator
    from bbflow.operators.parse import parse_operators
    from bbflow.operators.state import StateLayout

__all__ = ["Filter", "Operator", "StateLayout", "fold_steps", "parse_operators"]
_MODULES = {
    "Filter": "filter",
    "Operator": "operator",
    "StateLayout": "state",
    "fold_steps": "fold",
    "parse_operators": "parse",
}


def __getattr__(name: str) -> Any:
    # Late, since stagers and servers of files take policies of the user's own by what stands here, and need no NumPy.
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
