"""bbflow: in-transit analysis and workflow staging around burst buffers.

From Python, ``bbflow.start_nodes`` or ``bbflow.connect`` give a `bbflow.api.BurstBuffer`, and ``bbflow.Ensemble``
takes an ensemble's configuration.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bbflow.api import BurstBuffer, connect, jobqueue_options, open_results, start_nodes
    from bbflow.run.ensemble_control import Ensemble

__version__ = "0.1.0"
__all__ = ["BurstBuffer", "Ensemble", "__version__", "connect", "jobqueue_options", "open_results", "start_nodes"]


def __getattr__(name: str) -> Any:
    # Late, since a BB node's agent must stay small: it needs neither Dask nor xarray.
    if name == "Ensemble":
        from bbflow.run.ensemble_control import Ensemble

        return Ensemble
    if name in __all__:
        from bbflow import api

        return getattr(api, name)
    raise AttributeError(f"module 'bbflow' has no attribute {name!r}")
