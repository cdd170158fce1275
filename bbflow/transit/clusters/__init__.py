"""Where tasks run: in threads of the analysis, or on Dask's workers."""
