"""Why files aren't in the shared storage yet, reported while a command waits for them."""

import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bbflow.errors import NodeError
from bbflow.files.client.client import FilesClient
from bbflow.files.replies import OverviewReply
from bbflow.host.log import tell

LOOK_S = 0.5
"""How often the masters are asked."""


class Refusals:
    """Reports on standard error why files aren't written back, each file once."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def tell(self, failed: Iterable[tuple[str, str]]) -> None:
        """Report files, and why, unless that was done."""
        for path, error in failed:
            if path not in self._told:
                self._told.add(path)
                tell(f"{path}: {error}")


@contextmanager
def telling_refusals(contact: Path, below: str = "/") -> Iterator[Refusals]:
    """Report what the storage refuses of the files below a path, for as long as a ``with`` lasts."""
    refusals, is_over = Refusals(), threading.Event()

    def watch() -> None:
        with suppress(NodeError, OSError), FilesClient(contact) as client:  # the other one tells what is wrong
            while not is_over.wait(LOOK_S):
                for status in client.status():
                    refusals.tell(_refused(status, below))
                    refusals.tell(
                        (path, writer_of(host, pid))
                        for path, host, pid in status.writing
                        if _is_below(status, path, below)
                    )

    watching = threading.Thread(target=watch, name="bbflow-refusals", daemon=True)
    watching.start()
    try:
        yield refusals
    finally:
        is_over.set()
        watching.join(LOOK_S)


def _refused(status: OverviewReply, below: str) -> Iterable[tuple[str, str]]:
    return ((path, error) for path, error, _ in status.failed if _is_below(status, path, below))


def _is_below(status: OverviewReply, path: str, below: str) -> bool:
    tree = f"/{below.strip('/')}".rstrip("/")
    return f"{status.subtree.rstrip('/')}/{path}/".startswith(tree + "/")


def writer_of(host: str, pid: int) -> str:
    """Return which program has a file open for writing."""
    name = ""
    if pid and host == socket.gethostname():
        with suppress(OSError):
            name = Path(f"/proc/{pid}/comm").read_text().strip()
    who = f"{name or 'a program'} (process {pid} on {host})" if pid else f"a program on {host}"
    return f"{who} has it open for writing: what it writes until it closes it isn't in the storage"
