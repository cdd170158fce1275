"""What protection costs: safe copies of partial states beside cp, and Dask's tasks by TLS beside TCP and threads."""

import os
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from distributed import Client, LocalCluster

from bbflow.configuring.settings import WorkersConfig
from bbflow.transit.clusters.cluster import take
from bbflow.transit.clusters.dask_cluster import dask_here
from bbflow.transit.clusters.thread_cluster import ThreadCluster
from bbflow.transit.driver.safe import CopyWork, copy_states
from benchmarks.rates import in_turn
from benchmarks.rows import Row

FILES, FILE_BYTES = 4, 128 << 20
TASKS = 500


def measure(*, quick: bool = False) -> list[Row]:
    """Copy states to the disk below the working directory, and run many small tasks."""
    repeat = 3 if quick else 7
    return [*_safe_copies(repeat), *_tasks(repeat)]


def _safe_copies(repeat: int) -> list[Row]:
    with (
        tempfile.TemporaryDirectory(dir="/dev/shm", prefix="bbflow-bench-") as memory,
        tempfile.TemporaryDirectory(dir=Path.cwd(), prefix="bbflow-bench-") as disk,
    ):
        files = tuple(f"{memory}/state{number}" for number in range(FILES))
        for file in files:
            Path(file).write_bytes(os.urandom(FILE_BYTES))
        work = CopyWork(files, f"{disk}/safe")
        Path(disk, "cp").mkdir()
        ways = {
            "cp": lambda: subprocess.run(["cp", *files, f"{disk}/cp"], check=True),
            "copy": lambda: copy_states(work),
        }
        cp_s, copy_s = in_turn(ways, repeat).values()
    gib = FILES * FILE_BYTES / 2**30
    return [
        Row("cp of partial states in memory to the disk's page cache", gib / cp_s, "GiB/s", 1.0),
        Row("safe copy of the same, while nothing is folded", gib / copy_s, "GiB/s", cp_s / copy_s),
    ]


def _tasks(repeat: int) -> list[Row]:
    with _plain() as tcp, dask_here(WorkersConfig(processes=1)) as tls, ThreadCluster(2) as inside:
        ways = {
            "tcp": lambda: _run_tasks(tcp),
            "tls": lambda: _run_tasks(tls.client),
            "inside": lambda: _run_in(inside),
        }
        tcp_s, tls_s, inside_s = (seconds / TASKS for seconds in in_turn(ways, repeat).values())
    return [
        Row("small task of Dask among many, TCP", 1e3 * tcp_s, "ms", 1.0),
        Row("with TLS, as bbflow runs it", 1e3 * tls_s, "ms", tls_s / tcp_s),
        Row("in threads of the analysis (workers: processes: 0)", 1e3 * inside_s, "ms", inside_s / tcp_s),
    ]


@contextmanager
def _plain() -> Iterator[Client]:
    with LocalCluster(n_workers=1, threads_per_worker=2, host="127.0.0.1", dashboard_address="127.0.0.1:0") as cluster:
        yield cluster.get_client()


def _run_tasks(client: Client) -> None:
    client.gather([client.submit(abs, number, pure=False) for number in range(TASKS)])


def _run_in(cluster: ThreadCluster) -> None:
    tasks = [cluster.submit(abs, number, host=socket.gethostname(), done=lambda: None) for number in range(TASKS)]
    take(tasks)
