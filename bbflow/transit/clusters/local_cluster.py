"""The workers that a run has on its own host, where no others are given."""

from collections.abc import Iterator
from contextlib import contextmanager

from bbflow.configuring.settings import WorkersConfig
from bbflow.transit.clusters.cluster import Cluster
from bbflow.transit.clusters.thread_cluster import ThreadCluster


@contextmanager
def local_cluster(workers: WorkersConfig) -> Iterator[Cluster]:
    """Start workers on this host, until the context ends: threads of this process, or Dask's processes.

    Parameters
    ----------
    workers
        How many; a dashboard is Dask's, whose worker it shows then.

    Raises
    ------
    NodeError
        If a worker doesn't start.
    """
    if not workers.processes and workers.dashboard is None:
        with ThreadCluster(workers.threads) as threads:
            yield threads
        return
    from bbflow.transit.clusters.dask_cluster import (
        dask_here,  # late: Dask takes longer to import than all else before a fold
    )

    with dask_here(workers) as dask:
        yield dask
