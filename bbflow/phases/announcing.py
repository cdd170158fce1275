"""Announce an I/O phase from Python: a context manager that keeps its lease alive."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bbflow.phases.board import LEASE_S, Announcement, Board
from bbflow.phases.phase import PFS


@contextmanager
def io_phase(
    application: str, directory: Path | None = None, file_system: str = PFS, lease_s: float = LEASE_S
) -> Iterator[Announcement]:
    """Announce an I/O phase for as long as a ``with`` lasts.

    Parameters
    ----------
    application
        Name of the application.
    directory
        Of the announcements; by default that of the variable ``BBFLOW_PHASES``.
    file_system
        Where the application works.
    lease_s
        If the process dies, the phase counts as ended after at most this many seconds.

    Raises
    ------
    ConfigError
        If there is no directory for announcements.
    """
    board = Board(directory)
    announcement = board.planned(application, file_system, lease_s)
    ended = threading.Event()
    renewal = threading.Thread(target=_renew, args=(board, announcement, lease_s, ended), daemon=True)
    try:  # from before it is there: a signal may end the process at any moment
        board.renew(announcement, lease_s)
        renewal.start()
        yield announcement
    finally:
        ended.set()
        # A signal may have come before it was started, and only what was can be joined.
        if renewal.ident is not None:
            renewal.join()
        board.end(announcement.token)


def _renew(board: Board, announcement: Announcement, lease_s: float, ended: threading.Event) -> None:
    while not ended.wait(lease_s / 3):
        try:
            board.renew(announcement, lease_s)
        except OSError:
            continue  # the lease still runs, and the next attempt may succeed
