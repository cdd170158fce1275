"""Coordinates stay as the first step has them, which is all that results have of them; if they don't, that is said."""

from collections.abc import Iterable

from bbflow.drain.coordinates import is_part_of
from bbflow.transit.folding.patterns import parts_of
from bbflow.transit.output.results import Results
from bbflow.transit.running import Running
from bbflow.view.blocks import BlockReader


class SteadyCoordinates:
    """Looks at one step of each batch: what changes with time is another in most of them.

    Parameters
    ----------
    run
        The run.
    results
        What has the coordinates.
    names
        Variables of the stream.
    """

    def __init__(self, run: Running, results: Results, names: Iterable[str]) -> None:
        self._run, self._results = run, results
        self._values = {name: results.values(name) for name in names if results.is_coordinate(name)}
        self._reader: BlockReader | None = None
        self.changes: list[str] = []
        """What has changed, and in which step that was seen."""

    def look(self, number: int) -> None:
        """Compare the coordinates of a step that is still held."""
        for node, part in parts_of(self._run.view, number).items():
            forms = enumerate(part.layout.forms) if self._values else ()
            for block in [part.blocks[at] for at, form in forms if form.bytes and form.name in self._values]:
                self._reader = self._reader or BlockReader(self._run.contact, self._run.config.stream)
                values = self._reader.read(node, part.landed_in, block)
                if block.name in self._values and not is_part_of(self._values[block.name], block, values):
                    del self._values[block.name]
                    self._note(block.name, number)

    def _note(self, name: str, number: int) -> None:
        self._results.describe(name, bbflow_changed_in_step=number)
        self.changes.append(
            f"coordinate {name} changes with time, as seen in step {number}: the results have it as the first step does"
        )
