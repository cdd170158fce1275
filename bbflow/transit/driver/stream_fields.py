"""What is known of a stream's fields: how they lie, which stay as the first step has them, and whether that is so."""

import time
from collections.abc import Collection, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from bbflow.drain.coordinates import is_same
from bbflow.operators.space.placement import Placement
from bbflow.operators.steps import Array
from bbflow.operators.windows.calendars import Clock
from bbflow.stream.cf import StreamAttributes
from bbflow.stream.records import Block, BlockForm, Layout
from bbflow.transit.driver.first_step import FirstStep, StreamArrays
from bbflow.transit.driver.stage import Running
from bbflow.transit.folding.fixed import Fixed
from bbflow.transit.folding.patterns import parts_of
from bbflow.transit.output.fields import ResultField, field_of
from bbflow.transit.output.results import Results
from bbflow.view.blocks import BlockReader
from bbflow.view.meanings import MeaningChange

SMALL_BYTES = 1 << 20
"""What is larger is compared after 1, 2, 4, 8 … batches: to read all of a large grid again each time costs too much."""
ASK_S = 0.25
"""So often nodes are asked whether the simulation waits for room, while its second step is waited for (seconds)."""


class StreamFields:
    """Learns of fields from the blocks of steps.

    Parameters
    ----------
    run
        What holds for all stages.
    """

    def __init__(self, run: Running) -> None:
        self._run = run
        self.folded = frozenset(name for item in run.config.diagnostics.values() for name in item.variables)
        """Names of the variables that are folded."""
        self.forms: dict[str, Block | BlockForm] = {}
        """A block of each of the stream's variables that was seen."""
        self._said: tuple[tuple[Layout, ...], dict[str, Any]] | None = None
        self._placing: Collection[str] = ()
        """Variables that have told points, masks, weights and levels."""
        self.coordinates = SteadyCoordinates(run)
        """What should stay as it was."""
        self._arrays: StreamArrays | None = None
        """Of the first step, until it is known which of them are fixed."""
        self._asked_s = 0.0

    def open(
        self,
        arrays: StreamArrays,
        told: Mapping[str, Sequence[str]],
        results: Results,
        earlier: Mapping[str, str],
    ) -> None:
        """Begin with what the first step has.

        Parameters
        ----------
        arrays
            Its variables.
        told
            Variable to the diagnostics whose points, masks or weights it has told.
        results
            What has the coordinates.
        earlier
            What an earlier job of the chain was told by them, as `SteadyCoordinates.places`.
        """
        self._arrays, self._placing, self._keep_late = arrays, told, arrays.keep_late
        self.coordinates.open(arrays, told, results, earlier)

    def described(
        self,
        blocks: Mapping[str, Block | BlockForm],
        attributes: StreamAttributes,
        placements: Mapping[str, Placement],
        clock: Clock,
    ) -> dict[str, ResultField]:
        """Return what some blocks tell of the fields whose variables are all among them, by the diagnostic's key."""
        self.forms |= blocks
        return {
            name: field_of(diagnostic, blocks, attributes, placements, clock)
            for name, diagnostic in self._run.config.diagnostics.items()
            if blocks.keys() >= set(diagnostic.variables)
        }

    def told_by(
        self,
        layouts: Mapping[str, Layout],
        attributes: StreamAttributes,
        placements: Mapping[str, Placement],
        clock: Clock,
    ) -> dict[str, ResultField]:
        """Return what steps with some layouts tell, as `described`; nothing if the steps before have told the same."""
        if (tuple(layouts.values()), attributes.values) == self._said:
            return {}
        blocks = {form.name: form for layout in layouts.values() for form in layout.forms}
        self._keep_late({name: form for name, form in blocks.items() if name in self.folded})
        found = self.described(blocks, attributes, placements, clock)
        self._said = tuple(layouts.values()), dict(attributes.values)
        return found

    @property
    def change(self) -> MeaningChange | None:
        """The first change of how numbers that are used are read."""
        changes = self._run.view.changes
        if not changes:
            return None
        config, axis = self._run.config, f"{self._run.config.time.variable}/units"
        called = {name for function in config.functions for name in function.variables}
        used = {*self.folded, *self._placing, *called, config.time.variable}
        used |= set(config.raw.when.variables) if config.raw.when is not None else set()
        return next((item for item in changes if item.variable in used and item.name != axis), None)

    # Fixed fields

    @property
    def first(self) -> FirstStep | None:
        """The first step, until it is known which of its variables are fixed."""
        return None if self._arrays is None else self._arrays.first

    def find_fixed(self, cursor: int) -> Fixed | None:
        """Find the fixed fields: what expressions need, and the second step lacks. None as long as it isn't known.

        Parameters
        ----------
        cursor
            Every step up to this one is folded.
        """
        arrays, diagnostics = self._arrays, self._run.config.diagnostics.items()
        assert arrays is not None
        pairs = {key: item.variables for key, item in diagnostics if len(item.variables) > 1}
        needed = {name for own in pairs.values() for name in own}
        if arrays.known_fixed() is None:
            there = self._second_step(cursor) if needed & arrays.names else arrays.names
            if there is None:
                return None
            arrays.hold([name for name in (needed & arrays.names).difference(there) if arrays.is_field(name)])
        fixed = arrays.fixed()
        self.coordinates.hold({name: [key for key, own in pairs.items() if name in own] for name in fixed}, arrays)
        self._arrays = None
        return fixed

    def _second_step(self, cursor: int) -> Collection[str] | None:
        """Return the names of what the second step has; all of the first's if it can't be had, None if it may come.

        It can't where the pools have no room for it beside the first: what steps lack then is said at the end.
        """
        view, numbers = self._run.view, self._run.view.steps_after(cursor, 2)
        if len(numbers) > 1:
            return {block.name for _, block in view.blocks(numbers[1])}
        names = {block.name for _, block in view.blocks(numbers[0])} if numbers else set()
        if not numbers or view.ended or view.frontier > numbers[0]:
            return names
        if time.monotonic() < self._asked_s + ASK_S:
            return None
        self._asked_s = time.monotonic()
        return names if any(part.waiting for part in self._run.consumers.statuses()) else None


class SteadyCoordinates:
    """Coordinates, masks and weights, which place fields, stay as the first step has them; if not, that is said.

    It looks at one step of each batch: what changes with time is another in most of them.

    Parameters
    ----------
    run
        The run.
    """

    def __init__(self, run: Running) -> None:
        self._run = run
        self._results: Results | None = None
        self._told: Mapping[str, Sequence[str]] = {}
        self._values: dict[str, Array] = {}
        self._fixed: Mapping[str, Sequence[str]] = {}
        self._reader: BlockReader | None = None
        self._looks = 0
        self.places: dict[str, str] = {}
        """Masks and weights to digests of their values: the next job of a chain is compared with them."""
        self.changes: list[str] = []
        """What has changed, and in which step that was seen."""
        self.misplaced: list[str] = []
        """Those of them by which fields were placed."""

    def open(
        self,
        arrays: StreamArrays,
        told: Mapping[str, Sequence[str]],
        results: Results,
        earlier: Mapping[str, str],
    ) -> None:
        """Begin with what the first step has, as `StreamFields.open`."""
        self._results, self._told = results, told
        self._values = {name: results.values(name) for name in arrays.blocks if results.is_coordinate(name)}
        self._values |= {name: arrays[name] for name in told if name not in self._values}
        # Without coordinates: the results have those of the first job, and are compared with each step.
        own = {name: _digest(arrays[name]) for name in told if not results.is_coordinate(name)}
        self.places = dict(earlier) | own  # a job without steps hands on what it was told
        for name in sorted(own):
            if earlier.get(name, own[name]) != own[name]:
                self._misplace(name, f"{name} isn't what it was in the job before")

    def hold(self, fixed: Mapping[str, Sequence[str]], arrays: StreamArrays) -> None:
        """Compare fixed fields too, wherever they come again; by the diagnostics that have them of the first step."""
        self._fixed = fixed
        self._values |= {name: arrays[name] for name in fixed}

    @property
    def arrays(self) -> set[str]:
        """The variables that are compared and aren't single values."""
        return {name for name, values in self._values.items() if values.ndim}

    def look(self, numbers: Sequence[int], *, each: bool = False) -> None:
        """Compare variables of a batch's steps, which are still held.

        Parameters
        ----------
        numbers
            The steps.
        each
            Whether each of them must be looked at: ranks that fold land few arrays but those that have changed.
        """
        if not numbers or self._results is None:
            return
        self._looks += 1
        is_turn = self._looks & (self._looks - 1) == 0 or each
        wanted = {name for name, values in self._values.items() if is_turn or values.nbytes <= SMALL_BYTES}
        for number in numbers:
            self._compare(number, self._fixed.keys() | (wanted if each or number == numbers[-1] else set()))

    def _compare(self, number: int, wanted: Collection[str]) -> None:
        placed: dict[str, list[tuple[Array, Block]]] = {}
        for node, part in parts_of(self._run.view, number).items() if wanted else ():
            forms = enumerate(part.layout.forms)
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
        run = self._run
        self._reader = self._reader or BlockReader(run.contact, run.config.stream, run.consumers.returning)
        return self._reader.read(node, landed_in, block)

    def _note(self, name: str, number: int) -> None:
        seen = f"{name} changes with time, as seen in step {number}"
        if name in self._told:
            self._misplace(name, seen)
        if name in self._fixed:
            fields = ", ".join(self._fixed[name])
            self.misplaced.append(f"{seen}, and isn't in the second: {fields} have it as the first step does")
            self.changes.append(self.misplaced[-1])
        if self._results is not None and self._results.is_coordinate(name):
            self._results.describe(name, bbflow_changed_in_step=number)
            self.changes.append(f"coordinate {seen}: the results have it as the first step does")

    def _misplace(self, name: str, seen: str) -> None:
        fields = ", ".join(self._told[name])
        self.misplaced.append(
            f"{seen}: the points, masks or weights that 'space' of {fields} has by it are those of the first step; "
            "weights that change can be had by an expression, as (x * w) and w summed by themselves"
        )
        self.changes.append(self.misplaced[-1])


def _digest(values: Array) -> str:
    # Of equal numbers, whatever their type: the next job may write them with another one.
    # The sum makes -0.0 a 0.0, which it equals.
    return blake2b((np.asarray(values, "<f8") + 0.0).tobytes(), digest_size=16).hexdigest()


def _has_values(form: BlockForm) -> bool:
    """Whether it is a block of an array that has points, or a single value."""
    return bool(form.bytes) or form.kind == "GlobalValue"
