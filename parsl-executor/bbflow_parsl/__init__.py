"""Burst-buffer staging for Parsl: an app changes its configuration, nothing else."""

from bbflow.errors import MissingToolError

try:
    from bbflow_parsl.executor import BurstBufferExecutor, BurstBufferMixin
    from bbflow_parsl.settings import BurstBufferSettings
    from bbflow_parsl.staging import BurstBufferStaging
except ModuleNotFoundError as error:
    if error.name is None or error.name.partition(".")[0] != "parsl":
        raise
    raise MissingToolError("parsl isn't installed: pip install 'bbflow[parsl]'") from None

__all__ = ["BurstBufferExecutor", "BurstBufferMixin", "BurstBufferSettings", "BurstBufferStaging"]
