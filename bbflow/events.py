"""events.jsonl: what happened when, one JSON object a line; the report is drawn from it."""

import json
from collections.abc import Iterable, Iterator, Mapping
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


def read_events(output: Path) -> Iterator[dict[str, Any]]:
    """Go through the events of a run; a torn last line is left out."""
    path = output / EVENTS_FILE
    if not path.exists():
        return
    for line in path.read_text().splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            continue
