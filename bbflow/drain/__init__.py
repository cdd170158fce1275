"""Raw steps to the parallel file system, as Zarr."""
