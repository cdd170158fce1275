"""The in-transit pipeline on Dask: fold each committed step where it lies, reduce, publish."""
