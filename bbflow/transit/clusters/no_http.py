"""Loaded by Dask's schedulers and workers when they start: closes their web server, which they always open."""

from distributed import Scheduler, Worker


def dask_setup(server: Scheduler | Worker) -> None:
    """Close the web server."""
    server.http_server.stop()
    server.services.pop("dashboard", None)
