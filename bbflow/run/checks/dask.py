"""Whether a run's Dask answers, lets no one else in, and has workers where the nodes are."""

from collections.abc import Collection
from pathlib import Path

from bbflow.errors import BbflowError
from bbflow.run.checks.finding import FINE, NOTE, WRONG, Finding
from bbflow.transit.clusters.dask_cluster import reached


def check_dask(scheduler: str, certificate: Path, hosts: Collection[str]) -> list[Finding]:
    """Ask a scheduler for its workers.

    Parameters
    ----------
    scheduler
        Its address or scheduler file.
    certificate
        What lets in, if it is there.
    hosts
        Those of the BB nodes.
    """
    try:
        address, workers = reached(scheduler, certificate)
    except BbflowError as error:
        return [Finding(WRONG, "dask", str(error))]
    told = f"{address} answers, workers on {', '.join(sorted(workers)) or 'no host yet'}"
    lacking = sorted(set(hosts) - set(workers))
    found = [Finding(NOTE if lacking else FINE, "dask", told)]
    if lacking:
        text = f"no worker yet on {', '.join(lacking)}, where BB nodes are: 'bbflow dask worker' starts one"
        found.append(Finding(NOTE, "dask", text))
    if not address.startswith("tls"):
        text = "it has no TLS: whoever reaches its port runs programs in your name ('bbflow dask scheduler' has)"
        found.append(Finding(NOTE, "dask", text))
    return found
