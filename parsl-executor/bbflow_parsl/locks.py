"""Places that the processes of one node take in turn."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bbflow.host.locks import lock, locked

POLL_S = 0.01
"""How often is looked for what can't be waited for."""


@contextmanager
def one_of(directory: Path, count: int) -> Iterator[int]:
    """Hold one of some places, in turn with others who wait; give its number, the lowest that is free.

    Parameters
    ----------
    directory
        Of the locks; made if it isn't there.
    count
        How many places there are.
    """
    directory.mkdir(exist_ok=True)
    with locked(directory / "turn"):
        while (found := _first_free(directory, count)) is None:
            time.sleep(POLL_S)
    number, descriptor = found
    try:
        yield number
    finally:
        os.close(descriptor)


def _first_free(directory: Path, count: int) -> tuple[int, int] | None:
    for number in range(count):
        descriptor = lock(directory / str(number), wait=False)
        if descriptor is not None:
            return number, descriptor
    return None
