"""Burst-buffer staging for Parsl: an app changes its configuration, nothing else."""

from bbflow_parsl.executor import BurstBufferExecutor, BurstBufferMixin
from bbflow_parsl.settings import BurstBufferSettings
from bbflow_parsl.staging import BurstBufferStaging

__all__ = ["BurstBufferExecutor", "BurstBufferMixin", "BurstBufferSettings", "BurstBufferStaging"]
