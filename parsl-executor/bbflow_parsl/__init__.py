"""Burst-buffer staging for Parsl: an app changes its configuration, nothing else."""

from bbflow_parsl.executor import BurstBufferExecutor, BurstBufferMixin
from bbflow_parsl.settings import BurstBuffer
from bbflow_parsl.staging import BurstBufferStaging

__all__ = ["BurstBuffer", "BurstBufferExecutor", "BurstBufferMixin", "BurstBufferStaging"]
