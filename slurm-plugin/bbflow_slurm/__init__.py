"""Burst buffers by Slurm's own means: what a job script asks for is there before the job begins."""
