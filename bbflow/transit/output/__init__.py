"""What is published: results.zarr and its NetCDF copies, described as the CF conventions want it."""
