"""Zarr stores that grow while others read them."""
