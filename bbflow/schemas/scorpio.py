"""SCORPIO, the I/O library of E3SM: decomposed fields as 1-D blocks with a map of their points, frames in a step."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import msgspec
import numpy as np

from bbflow.errors import StreamError
from bbflow.schemas.cutting import NEW, Cut
from bbflow.schemas.schema import Array, LandedStep
from bbflow.stream.attributes import DIMENSIONS
from bbflow.stream.dtypes import DTYPES
from bbflow.stream.layouts import BlockForm
from bbflow.stream.point_maps import PointMap
from bbflow.stream.records import Parts, Step

ROOT = "/__pio__/"
VAR, GLOBAL, DIM, DECOMP = f"{ROOT}var/", f"{ROOT}global/", f"{ROOT}dim/", f"{ROOT}decomp/"
FRAME_ID, DECOMP_ID, FILL_ID = (f"{ROOT}track/{name}/" for name in ("frame_id", "decomp_id", "fillval_id"))
TYPES = (
    *("string", "float", "double", "float complex", "double complex"),
    *("int8_t", "int16_t", "int32_t", "int64_t", "uint8_t", "uint16_t", "uint32_t", "uint64_t", "long double"),
)
"""ADIOS2's types by the numbers that its C API gives them, with which SCORPIO names them."""
SMALL_BYTES = 256
"""How many are read of a variable's values with its start and count: more than one value has."""
Placed = tuple[str, int, BlockForm]
"""A node, which of the forms there, and that form."""


@dataclass(frozen=True, slots=True)
class Put:
    """A block as it is in one frame."""

    node: str
    """Where it lies."""
    at: int
    """Which of the forms there; `NEW` for a single value."""
    form: BlockForm
    """What it is now."""
    frame: int
    """Its frame; -1 for what has none."""
    value: Any = None
    """Of a single value."""


@dataclass(slots=True)
class Scorpio:
    """What SCORPIO 1.4 to 2.0 puts with its type ADIOS (``src/clib/core/pio_darray.cpp``, ``pio_getput_int.cpp``).

    A field ``/__pio__/var/T`` that is put by PIOc_write_darray has one 1-D block for each frame and group of I/O tasks;
    one rank tells with ``/__pio__/track/frame_id/T`` which frames these are, and others the decompositions and fill
    values. A map ``/__pio__/decomp/ID`` has for each point its place in the grid, from 1 on; 0 is a hole. A variable
    that is put by PIOc_put_var comes as bytes: start and count, as 64-bit integers, and its values.
    """

    name: str = "scorpio"
    needs_all: bool = True
    maps: dict[str, PointMap] = field(default_factory=dict)
    _decomps: dict[str, PointMap] = field(default_factory=dict)
    _dims: dict[str, int] = field(default_factory=dict)
    _fill: dict[str, dict[float, int]] = field(default_factory=dict)
    """Variable to what stands for its missing values: each with the landed step that had it first."""
    _kept: frozenset[str] = frozenset()
    _cuts: dict[tuple[Any, ...], tuple[Cut, tuple[str, ...]]] = field(default_factory=dict)

    def recognises(self, names: Collection[str], attributes: Mapping[str, Any]) -> bool:
        """Return whether any variable's name is one of SCORPIO's, or an attribute's where there are no variables."""
        return any(name.startswith((VAR, DECOMP)) for name in names or attributes)

    def call(self, names: Collection[str]) -> None:
        """Keep SCORPIO's names of the fields that the configuration names so."""
        self._kept = frozenset(name.removeprefix(VAR) for name in names if name.startswith(VAR))

    def _named(self, name: str) -> str:
        return VAR + name if name in self._kept else name

    def attributes(self, name: str, value: Any) -> Sequence[tuple[str, Any]]:
        """Return an attribute without SCORPIO's prefix: names of dimensions, but none of its other notes."""
        if name.startswith(GLOBAL):
            return [(name.removeprefix(GLOBAL), value)]
        if name.startswith(VAR):
            variable, _, own = name.removeprefix(VAR).rpartition("/")
            if own == "dims" and variable.endswith("/def"):
                dims = [value] if isinstance(value, str) else value
                return [(f"{self._named(variable.removesuffix('/def'))}/{DIMENSIONS}", dims)]
            return [] if variable.endswith("/def") else [(f"{self._named(variable)}/{own}", value)]
        return [] if name.startswith(ROOT) else [(name, value)]

    def memory(self) -> bytes:
        """Return what later steps don't tell again."""
        decomps = {name: [own.shape, own.points, own.digest, own.file] for name, own in self._decomps.items()}
        told = [decomps, self._dims, self._fill, {name: own.name for name, own in self.maps.items()}]
        return msgspec.msgpack.encode(told)

    def remember(self, memory: bytes) -> None:
        """Continue with what another object has told as its `memory`."""
        decomps, self._dims, self._fill, maps = msgspec.msgpack.decode(memory)
        self._decomps = {name: PointMap(name, tuple(shape), *rest) for name, (shape, *rest) in decomps.items()}
        self.maps.update({name: self._decomps[decomp] for name, decomp in maps.items()})

    def found(self, through: int, told: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what stands for missing values of fields: the fill values that they were put with, too."""
        found: dict[str, float | list[float]] = {}
        for variable, fills in self._fill.items():
            name = f"{VAR}{variable}/missing_value"
            own = [] if isinstance(told.get(name, ""), str) else np.ravel(told[name]).tolist()
            further = [value for value, first in fills.items() if first <= through and value not in own]
            if further:
                found[name] = [*own, *further] if own or len(further) > 1 else further[0]
        return found

    def steps(self, landed: LandedStep) -> Sequence[Parts]:
        """Return a step for each frame that is in a landed one; what has no frame is in the first, or is one itself."""
        blocks = _by_name(landed.parts)
        self._learn(landed, blocks)
        puts: list[Put] = []
        for name in sorted(name for name in blocks if name.startswith(VAR)):
            puts += self._puts(landed, name.removeprefix(VAR), blocks)
        # A step without frames is one step, or what it has would be lost without a word.
        frames = sorted({put.frame for put in puts if put.frame >= 0}) or [-1] * bool(puts)
        self._learn_fills(landed, blocks)
        found: list[Parts] = []
        for frame in frames:
            wanted = (frame, -1) if frame == frames[0] else (frame,)
            own = [put for put in puts if put.frame in wanted]
            found.append({node: self._cut(node, step, own) for node, step in landed.parts.items()})
        return [*found[:1], *({node: replace(step, attributes=()) for node, step in own.items()} for own in found[1:])]

    def _cut(self, node: str, step: Step, puts: Sequence[Put]) -> Step:
        puts = [put for put in puts if put.node == node]
        key = (node, step.layout, tuple((put.at, put.form) for put in puts))
        if key not in self._cuts:
            if len(self._cuts) > 4096:
                self._cuts.clear()
            added = sorted((put for put in puts if put.at == NEW), key=lambda put: put.form.rank)
            new = Cut.of(step.layout, [(put.at, put.form) for put in puts])
            self._cuts[key] = new, tuple(put.form.name for put in added)
        cut, names = self._cuts[key]
        values = {put.form.name: put.value for put in puts if put.at == NEW}
        return cut.step(step, [values[name] for name in names])

    # Dimensions and maps

    def _learn(self, landed: LandedStep, blocks: Mapping[str, Sequence[Placed]]) -> None:
        for name, placed in blocks.items():
            if name.startswith(DIM) and placed[0][2].kind == "GlobalValue":
                self._dims[name.removeprefix(DIM)] = int(_value(landed.parts, placed[0]))
            elif name.startswith(DECOMP):
                self._learn_map(landed, name.removeprefix(DECOMP), placed)

    def _learn_map(self, landed: LandedStep, name: str, placed: Sequence[Placed]) -> None:
        shape = landed.attributes.get(f"{DECOMP}{name}/dimlen")
        if shape is None or landed.folder is None:
            return
        lengths = tuple(int(size) for size in (shape if isinstance(shape, list | tuple) else [shape]))
        places = np.concatenate([_read(landed, own) for own in placed]).astype("i8") - 1
        known = self._decomps.get(name)
        if known is None:
            self._decomps[name] = PointMap.keep(landed.folder, name, lengths, places)
        # Compared, not digested again: that took 7 ms of each step with 2 MiB of map, more than the step's fold.
        elif not known.is_same(lengths, places):
            raise StreamError(
                f"decomposition {name} has other points than it had: statistics of its fields can't continue"
            )

    def _decomp_of(self, landed: LandedStep, name: str, ids: Sequence[int], points: int) -> PointMap | None:
        """Find the map of a field; None if nothing tells one."""
        told = landed.attributes.get(f"{VAR}{name}/def/decomp")
        names = {str(abs(number)) for number in ids} or ({str(told)} if told is not None else set())
        if len(names) > 1:
            raise StreamError(
                f"{name} is put by the decompositions {', '.join(sorted(names))} in one step: its statistics can't be "
                "had; take it out of 'operators'"
            )
        if not names and len(self._decomps) == 1:
            names = {name for name, own in self._decomps.items() if own.points == points}
        return self._decomps.get(next(iter(names), ""))

    # Variables

    def _puts(self, landed: LandedStep, name: str, blocks: Mapping[str, Sequence[Placed]]) -> Iterator[Put]:
        placed = blocks[VAR + name]
        form = placed[0][2]
        how = landed.attributes.get(f"{VAR}{name}/def/ncop")
        if form.kind == "GlobalValue":
            if form.type != "string":
                node, at, _ = placed[-1]
                yield Put(node, at, replace(form, name=self._named(name)), -1)
        elif form.kind == "LocalArray" and how == "put_var":
            for own in placed:
                yield from self._put_var(landed, name, own)
        elif form.kind == "LocalArray":
            yield from self._darray(landed, name, placed, blocks)

    def _darray(
        self, landed: LandedStep, name: str, placed: Sequence[Placed], blocks: Mapping[str, Sequence[Placed]]
    ) -> Iterator[Put]:
        """Yield each frame's blocks their place behind those of the ranks before."""
        by_rank: dict[int, list[Placed]] = {}
        for own in placed:
            by_rank.setdefault(own[2].rank, []).append(own)
        counts = {len(own) for own in by_rank.values()}
        frames, ids = (_numbers(landed, blocks.get(prefix + name, ())) for prefix in (FRAME_ID, DECOMP_ID))
        frames = frames or list(range(max(counts)))
        if counts != {len(frames)} or len(set(frames)) not in (len(frames), 1):
            raise StreamError(
                f"{name} has {' or '.join(map(str, sorted(counts)))} blocks of a rank in one step for the frames "
                f"{', '.join(map(str, frames[:9]))}: each frame must have one"
            )
        for number, frame in enumerate(frames):
            if frame < 0 and number < len(frames) - 1:
                continue  # put again later
            blocks_of_frame = [by_rank[rank][number] for rank in sorted(by_rank)]
            total = sum(form.count[0] for _, _, form in blocks_of_frame)
            self._note_map(landed, name, ids[number : number + 1], total)
            first = 0
            for node, at, form in blocks_of_frame:
                new = replace(form, name=self._named(name), kind="GlobalArray", shape=(total,), start=(first,))
                first += form.count[0]
                yield Put(node, at, new, frame)

    def _note_map(self, landed: LandedStep, name: str, ids: Sequence[int], points: int) -> None:
        found = self._decomp_of(landed, name, ids, points)
        if found is None:
            return
        if found.points != points:
            raise StreamError(
                f"{name} has {points} points in a step, but its decomposition {found.name} {found.points}"
            )
        before = self.maps.setdefault(self._named(name), found)
        if before.digest != found.digest:
            raise StreamError(
                f"{name} changes from decomposition {before.name} to {found.name}: its statistics can't continue; take "
                "it out of 'operators'"
            )

    def _put_var(self, landed: LandedStep, name: str, placed: Placed) -> Iterator[Put]:
        """Take a variable's bytes apart: start, count, and values."""
        dims = landed.attributes.get(f"{VAR}{name}/def/dims")
        number = landed.attributes.get(f"{VAR}{name}/def/adiostype")
        if dims is None or number is None or not 0 < int(number) < len(TYPES):
            return
        node, at, form = placed
        names = [dims] if isinstance(dims, str) else list(dims)
        kind, header = TYPES[int(number)], 16 * len(names)
        if form.bytes < header:
            raise StreamError(f"{name} has {form.bytes} bytes, but must begin with {header} bytes of start and count")
        content = _read(landed, placed, most=header + SMALL_BYTES)
        start, count = np.frombuffer(content[:header].tobytes(), "<i8").reshape(2, -1).tolist()
        lengths = [self._dims.get(dim, 0) for dim in names]
        is_record = lengths[0] == 0
        whole = [length or 1 for length in lengths]
        start = [0] * len(names) if start[0] < 0 else start
        count = whole if count[0] < 0 else count
        frame = int(start[0]) if is_record else -1
        if is_record:
            start, count, whole = start[1:], count[1:], whole[1:]
        size = prod(count) * DTYPES[kind].itemsize
        if form.bytes != header + size:
            raise StreamError(f"{name} has {form.bytes - header} bytes of values, but its count {count} needs {size}")
        if not whole:
            value = np.frombuffer(content[header:].tobytes(), DTYPES[kind])[0].item()
            yield Put(node, NEW, BlockForm(self._named(name), kind, "GlobalValue", (), (), (), form.rank), frame, value)
            return
        new = replace(
            form, name=self._named(name), type=kind, kind="GlobalArray",
            shape=tuple(whole), start=tuple(start), count=tuple(count), place=form.place + header, bytes=size,
        )  # fmt: skip
        yield Put(node, at, new, frame)

    def _learn_fills(self, landed: LandedStep, blocks: Mapping[str, Sequence[Placed]]) -> None:
        """Note the fill values that fields were put with."""
        number = next(iter(landed.parts.values())).number
        for name in blocks:
            if name.startswith(FILL_ID):
                known = self._fill.setdefault(name.removeprefix(FILL_ID), {})
                values = np.concatenate([_read(landed, placed) for placed in blocks[name]])
                for value in values[values == values].tolist():
                    known.setdefault(value, number)


def _by_name(parts: Parts) -> dict[str, list[Placed]]:
    """Return all blocks of a step by their variable, those of lower ranks first."""
    found: dict[str, list[Placed]] = {}
    for node, step in parts.items():
        for at, form in enumerate(step.layout.forms):
            found.setdefault(form.name, []).append((node, at, form))
    return {name: sorted(own, key=lambda placed: placed[2].rank) for name, own in found.items()}


def _value(parts: Parts, placed: Placed) -> Any:
    node, at, _ = placed
    return parts[node].values[parts[node].layout.singles.index(at)]


def _read(landed: LandedStep, placed: Placed, most: int | None = None) -> Array:
    """Read a 1-D block, or the first bytes of one."""
    node, at, form = placed
    step = landed.parts[node]
    block = step.blocks[at]
    if most is not None and form.bytes > most:
        block = replace(block, count=(most,), bytes=most)
    return np.asarray(landed.read(node, step.landed_in, block)).reshape(-1)


def _numbers(landed: LandedStep, placed: Sequence[Placed]) -> list[int]:
    return [int(number) for own in placed for number in _read(landed, own).tolist()]
