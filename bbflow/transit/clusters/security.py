"""What lets programs into a run's Dask: its certificate."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bbflow.net.certificate import checked_certificate, ensure_certificate

if TYPE_CHECKING:  # Dask takes longer to import than all else that a run needs before its first fold
    from distributed.security import Security

NO_HTTP = "bbflow.transit.clusters.no_http"
"""What scheduler and workers load, so that they have no web page."""


def security_of(certificate: Path) -> "Security":
    """Admit, and trust, only those who have a certificate.

    Parameters
    ----------
    certificate
        PEM file with key and certificate, at the same path on all hosts.

    Raises
    ------
    ConfigError
        If others can read it.
    """
    from distributed.security import Security

    path = str(checked_certificate(certificate))
    roles = {f"tls_{role}_{part}": path for role in ("client", "scheduler", "worker") for part in ("cert", "key")}
    return Security(require_encryption=True, tls_ca_file=path, **roles)


def jobqueue_options(contact: str | Path) -> dict[str, Any]:
    """Return what a cluster of dask-jobqueue needs so that those only are let in who can read the contact file.

    Parameters
    ----------
    contact
        The BB nodes' contact file, at a path that is the same on all hosts; it need not be there yet.

    Returns
    -------
    dict
        Keywords for `SLURMCluster` and its like.
    """
    worker = ["--memory-limit", "0", "--no-dashboard", "--dashboard-address", "127.0.0.1:0", "--preload", NO_HTTP]
    return {
        "protocol": "tls://",
        "security": security_of(ensure_certificate(Path(contact))),
        "scheduler_options": {"dashboard": False, "dashboard_address": "127.0.0.1:0", "preload": NO_HTTP},
        "worker_extra_args": worker,
    }
