"""Burst-buffer staging for Snakemake: a storage and a scheduler plugin; Snakefiles stay as they are."""

from importlib.util import find_spec

from bbflow.errors import MissingToolError

if (
    find_spec("snakemake_interface_storage_plugins") is None
    or find_spec("snakemake_interface_scheduler_plugins") is None
):
    raise MissingToolError("Snakemake's interfaces aren't installed: pip install 'bbflow[snakemake]'")
