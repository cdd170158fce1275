"""Test bed: prefetching from a parallel file system that an HPC application shares, by delay policy."""

from benchmarks.testbed.measuring import measure

__all__ = ["measure"]
