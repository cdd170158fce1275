"""Burst-buffer staging for Pegasus: catalogs and properties change, the workflow doesn't."""

from bbflow_pegasus.settings import BurstBufferSite

__all__ = ["BurstBufferSite"]
