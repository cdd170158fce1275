"""events.jsonl: what happened when, one JSON object a line; the report is drawn from it."""

import json
import os
import resource
import socket
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from bbflow.errors import naming

EVENTS_FILE = "events.jsonl"


class EventLog:
    """Appends events; each line is written at once, so only the last one can be torn.

    Parameters
    ----------
    output
        Directory of the run's output.
    """

    def __init__(self, output: Path) -> None:
        self._file = (output / EVENTS_FILE).open("a", buffering=1)

    def add(self, event: str, **keys: Any) -> None:
        """Write one event; times are seconds since the epoch."""
        self.add_all([{"event": event} | keys])

    def add_all(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Write several events, each with its kind under ``event``, in one go."""
        with naming(self._file.name):
            self._file.write("".join(json.dumps(event) + "\n" for event in events))

    def close(self) -> None:
        """Close the file."""
        with naming(self._file.name):
            self._file.close()


@contextmanager
def noted_task(
    output: Path, task: str, inputs: Iterable[str | os.PathLike[str]], outputs: Iterable[str | os.PathLike[str]]
) -> Iterator[None]:
    """Note a task of this process that ends well: when it ran, its computing, and the files that it read and wrote.

    `bbflow plan cloudbb --profile` reads these events; processes may note to one directory.

    Parameters
    ----------
    output
        Directory of the events; made if it isn't there.
    task
        Its name.
    inputs, outputs
        Its files.
    """
    read = {os.fspath(path): os.path.getsize(path) for path in inputs}
    started_s, before_s = time.time(), _user_s()
    yield
    ended_s, user_s = time.time(), _user_s() - before_s
    written = {os.fspath(path): os.path.getsize(path) for path in outputs if os.path.exists(path)}
    output.mkdir(parents=True, exist_ok=True)
    with closing(EventLog(output)) as log:
        log.add(
            "ran",
            task=task,
            host=socket.gethostname(),
            started_s=started_s,
            ended_s=ended_s,
            user_s=user_s,
            inputs=read,
            outputs=written,
        )


def _user_s() -> float:
    """Return how long this process, and those that it started, have computed in user mode."""
    return sum(resource.getrusage(who).ru_utime for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def read_events(output: Path) -> Iterator[dict[str, Any]]:
    """Iterate over the events of a run; a torn last line is left out."""
    path = output / EVENTS_FILE
    if not path.exists():
        return
    for line in path.read_text().splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            continue
