"""Burst-buffer staging for Parsl: an app changes its configuration, nothing else."""
