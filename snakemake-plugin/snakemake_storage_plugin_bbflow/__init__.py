"""Where Snakemake finds the storage plugin ``bbflow``."""

from bbflow_snakemake.objects import StorageObject
from bbflow_snakemake.provider import BurstBufferStorage
from bbflow_snakemake.settings import StorageProviderSettings


class StorageProvider(BurstBufferStorage):
    """Snakemake looks for the objects' class where the provider's is."""


__all__ = ["StorageObject", "StorageProvider", "StorageProviderSettings"]
