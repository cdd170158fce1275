"""Where Snakemake finds the scheduler plugin ``bbflow``."""

from bbflow_snakemake.scheduler import Scheduler

__all__ = ["Scheduler"]
