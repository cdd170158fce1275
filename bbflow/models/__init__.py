"""Models as pure functions: what is shared how, what it costs others, what to rent. Each formula stands here once.

`bbflow.models.sharing` is imported from its own module: it needs NumPy, and transfers, which use others, start often.
"""

from bbflow.models.cloud import CloudChoice, CloudProfile, cloud_choices, cloud_time_s, least_time_cost
from bbflow.models.interference import Interference, PhaseSample, fit_interference
from bbflow.models.rates import NodeRates, StreamLoad, buffered_bytes, stream_balance

__all__ = [
    "CloudChoice",
    "CloudProfile",
    "Interference",
    "NodeRates",
    "PhaseSample",
    "StreamLoad",
    "buffered_bytes",
    "cloud_choices",
    "cloud_time_s",
    "fit_interference",
    "least_time_cost",
    "stream_balance",
]
