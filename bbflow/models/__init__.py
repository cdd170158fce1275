"""Models as pure functions: what is shared how, what it costs others, what to rent. Each formula stands here once."""

from bbflow.models.cloud import CloudChoice, CloudProfile, cloud_choices, cloud_time_s, least_time_cost
from bbflow.models.interference import Interference, PhaseSample, fit_interference
from bbflow.models.rates import NodeRates, StreamLoad, buffered_bytes, stream_balance
from bbflow.models.sharing import fair_rates

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
    "fair_rates",
    "fit_interference",
    "least_time_cost",
    "stream_balance",
]
