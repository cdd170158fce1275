"""Waves, delay policies and prefetch: inputs lie on the burst buffer when their tasks begin."""

from bbflow.staging.files import File, Location, Task
from bbflow.staging.gate import Decision, Gate
from bbflow.staging.matching import expand
from bbflow.staging.policies import Policy, Situation, parse_policy
from bbflow.staging.retry import Retry
from bbflow.staging.share import Share
from bbflow.staging.stager import Locations, Stager
from bbflow.stores.sources import Sources

__all__ = [
    "Decision",
    "File",
    "Gate",
    "Location",
    "Locations",
    "Policy",
    "Retry",
    "Share",
    "Situation",
    "Sources",
    "Stager",
    "Task",
    "expand",
    "parse_policy",
]
