"""Coordinates, masks and weights stay as the first step has them, by which fields were placed; if not, that is said."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from bbflow.drain.coordinates import is_same
from bbflow.operators.steps import Array
from bbflow.stream.records import Block, BlockForm
from bbflow.transit.driver.placing import StreamArrays
from bbflow.transit.driver.run_context import Running
from bbflow.transit.folding.patterns import parts_of
from bbflow.transit.output.results import Results
from bbflow.view.blocks import BlockReader

SMALL_BYTES = 1 << 20
"""What is larger is compared after 1, 2, 4, 8 … batches: to read all of a large grid again each time costs too much."""


class SteadyCoordinates:
    """Looks at one step of each batch: what changes with time is another in most of them.

    Parameters
    ----------
    run
        The run.
    results
        What has the coordinates.
    arrays
        What was read of the first step.
    told
        Variable to the diagnostics whose points, masks or weights it has told.
    """

    def __init__(self, run: Running, results: Results, arrays: StreamArrays, told: Mapping[str, Sequence[str]]) -> None:
        self._run, self._results, self._told = run, results, told
        self._values: dict[str, Array] = {
            name: results.values(name) for name in arrays.blocks if results.is_coordinate(name)
        }
        self._values |= {name: arrays[name] for name in told if name not in self._values}
        self._fixed: Mapping[str, Sequence[str]] = {}
        self._reader: BlockReader | None = None
        self._looks = 0
        self.changes: list[str] = []
        """What has changed, and in which step that was seen."""
        self.misplaced: list[str] = []
        """Those of them by which fields were placed."""

    def hold(self, fixed: Mapping[str, Sequence[str]], arrays: StreamArrays) -> None:
        """Compare fixed fields too, wherever they come again; by the diagnostics that have them of the first step."""
        self._fixed = fixed
        self._values |= {name: arrays[name] for name in fixed}

    def look(self, numbers: Sequence[int]) -> None:
        """Compare variables of a batch's steps, which are still held."""
        self._looks += 1
        is_turn = self._looks & (self._looks - 1) == 0
        wanted = {name for name, values in self._values.items() if is_turn or values.nbytes <= SMALL_BYTES}
        for number in numbers:
            self._compare(number, self._fixed.keys() | (wanted if number == numbers[-1] else set()))

    def _compare(self, number: int, wanted: Collection[str]) -> None:
        placed: dict[str, list[tuple[Array, Block]]] = {}
        for node, part in parts_of(self._run.view, number).items():
            forms = enumerate(part.layout.forms) if wanted else ()
            for block in [part.blocks[at] for at, form in forms if form.name in wanted and _has_values(form)]:
                if block.name in self._values:
                    placed.setdefault(block.name, []).append((self._read(node, part.landed_in, block), block))
        for name, blocks in placed.items():
            if not is_same(self._values[name], blocks):
                del self._values[name]
                self._note(name, number)

    def _read(self, node: str, landed_in: int, block: Block) -> Array:
        if not block.shape:
            return np.asarray(block.value, self._values[block.name].dtype)
        self._reader = self._reader or BlockReader(self._run.contact, self._run.config.stream)
        return self._reader.read(node, landed_in, block)

    def _note(self, name: str, number: int) -> None:
        seen = f"{name} changes with time, as seen in step {number}"
        if name in self._told:
            fields = ", ".join(self._told[name])
            self.misplaced.append(
                f"{seen}: the points, masks or weights that 'space' of {fields} has by it are those of the first step; "
                "weights that change can be had by an expression, as (x * w) and w summed by themselves"
            )
            self.changes.append(self.misplaced[-1])
        if name in self._fixed:
            fields = ", ".join(self._fixed[name])
            self.misplaced.append(f"{seen}, and isn't in the second: {fields} have it as the first step does")
            self.changes.append(self.misplaced[-1])
        if self._results.is_coordinate(name):
            self._results.describe(name, bbflow_changed_in_step=number)
            self.changes.append(f"coordinate {seen}: the results have it as the first step does")


def _has_values(form: BlockForm) -> bool:
    """Whether it is a block of an array that has points, or a single value."""
    return bool(form.bytes) or form.kind == "GlobalValue"
