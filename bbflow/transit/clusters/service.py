"""A Dask scheduler or worker that is a program of its own, closed to all who lack the run's certificate."""

import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dask
from distributed import Client
from distributed.cli import dask_scheduler, dask_worker

from bbflow.errors import ConfigError, NodeError
from bbflow.host.leftovers import scratch
from bbflow.net.contact import remove_scheduler_file
from bbflow.transit.clusters.cluster import ASIDE_THREADS
from bbflow.transit.clusters.dask_settings import dask_settings
from bbflow.transit.clusters.lasting_worker import SCHEDULER_FILE, UNNAMED_S, LastingWorker
from bbflow.transit.clusters.security import security_of

DEATH_TIMEOUT_S = 60
"""How long a worker that is started waits for its scheduler."""
ANSWER_TIMEOUT_S = 60.0


def serve_scheduler(
    certificate: Path, scheduler_file: Path, listen: str | None, dashboard: str | None, options: Sequence[str] = ()
) -> None:
    """Be a Dask scheduler until told to stop.

    Parameters
    ----------
    certificate
        PEM file with key and certificate.
    scheduler_file
        Where to write its address.
    listen
        Address of this host; all if None.
    dashboard
        ``host:port`` of the dashboard, which asks for no key; None for none.
    options
        Further options of ``dask scheduler``.
    """
    remove_scheduler_file(scheduler_file)
    dask.config.set(dask_settings(dashboard=dashboard is not None))
    words = [*_access(certificate, scheduler_file, listen), "--port", "0", "--dashboard-address"]
    words += [dashboard] if dashboard is not None else ["127.0.0.1:0", "--no-dashboard"]
    _serve(dask_scheduler.main, "dask scheduler", [*words, *options])


def serve_worker(
    certificate: Path, scheduler_file: Path, listen: str | None, threads: int, options: Sequence[str] = ()
) -> None:
    """Be a Dask worker until told to stop, by a signal or its scheduler; one that it only loses it looks for.

    Parameters
    ----------
    certificate, scheduler_file
        The scheduler's.
    listen
        Address of this host that scheduler and workers reach; Dask finds one if it is None.
    threads
        How many tasks fold at once.
    options
        Further options of ``dask worker``.
    """
    dask.config.set(dask_settings() | {SCHEDULER_FILE: str(scheduler_file.absolute())})
    words = [*_access(certificate, scheduler_file, listen), "--nthreads", str(threads + ASIDE_THREADS)]
    words += ["--worker-class", f"{LastingWorker.__module__}.{LastingWorker.__name__}"]
    words += ["--memory-limit", "0", "--no-dashboard", "--dashboard-address", "127.0.0.1:0"]
    words += ["--death-timeout", str(DEATH_TIMEOUT_S)]
    _serve(dask_worker.main, "dask worker", [*words, *options])


def _serve(command: Any, name: str, words: Sequence[str]) -> None:
    """Be a program of Dask's, whose own files go with it."""
    # Dask would leave them behind, in memory, one directory each time.
    with scratch() as directory, dask.config.set({"temporary-directory": str(directory)}):
        command.main(words, prog_name=name, standalone_mode=False)


def _access(certificate: Path, scheduler_file: Path, listen: str | None) -> list[str]:
    words = ["--scheduler-file", str(scheduler_file), "--protocol", "tls"]
    words += ["--tls-ca-file", str(certificate), "--tls-cert", str(certificate)]
    return words if listen is None else [*words, "--host", _resolved(listen)]


def _resolved(host: str) -> str:
    try:
        return str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])
    except OSError as error:
        raise ConfigError(f"{host!r} isn't an address of a host ({error.strerror}): give another --listen") from None


def shut_down(certificate: Path, scheduler_file: Path) -> None:
    """End a scheduler with its workers, and remove its file: workers that have lost it end without.

    Raises
    ------
    NodeError
        If it doesn't answer, or its file isn't there.
    ConfigError
        If the file is something else, which stays.
    """
    if not scheduler_file.exists():  # which Dask would wait for, without a limit
        raise NodeError(f"{scheduler_file} isn't there: end a scheduler that still runs by hand")
    security = security_of(certificate) if certificate.exists() else None
    where = {"scheduler_file": str(scheduler_file), "timeout": ANSWER_TIMEOUT_S}
    try:
        with Client(**where, security=security, set_as_default=False) as client:
            client.shutdown()
    except OSError as error:
        remove_scheduler_file(scheduler_file)
        raise NodeError(
            f"no Dask scheduler answers ({error}): {scheduler_file} is removed now, and workers that look for one end "
            f"within {UNNAMED_S:.0f} s; if it still runs, end it by hand"
        ) from None
    remove_scheduler_file(scheduler_file)
