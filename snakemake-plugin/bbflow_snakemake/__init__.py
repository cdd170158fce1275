"""Burst-buffer staging for Snakemake: a storage and a scheduler plugin; Snakefiles stay as they are."""
