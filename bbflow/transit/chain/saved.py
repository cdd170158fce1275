"""State files: what an analysis kept at its end, for a run that goes on and for `bbflow merge`.

A file is a prefix (magic, version, lengths, checksums), a header in MessagePack, and from the next page on the arrays
that the header places: the states as `StateLayout` lays them out for a whole field, and coordinates.
"""

import os
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgpack
import numpy as np

from bbflow.errors import ConfigError, DamagedError
from bbflow.operators.family import Array
from bbflow.operators.windows.calendars import Clock
from bbflow.point_maps import PointMap
from bbflow.transit.folding.inherited import Before, Inherited
from bbflow.transit.folding.slots import Keys, StateSlot
from bbflow.transit.output.claiming import STATE_FILE
from bbflow.transit.output.fields import ResultField

MAGIC, VERSION = b"bbflow state", 1
PREFIX = struct.Struct("<12sIQQII")
"""Magic, version, bytes of the header and of the data, checksums (CRC-32) of both."""
PAGE_BYTES = 4096
CHECKED_BYTES = 1 << 24
"""So much is read at a time for the checksum."""


@dataclass(frozen=True, slots=True)
class SavedField:
    """The states of one diagnostic."""

    meaning: Mapping[str, str]
    """What is computed, part by part: states go together if these are equal."""
    field: ResultField
    """What the store must know of it."""
    dtype: str
    """NumPy's name of the values' type after the transforms."""
    offsets: Mapping[StateSlot, int]
    """Place of the state to its first byte in the data."""


@dataclass(frozen=True, slots=True)
class SavedArray:
    """A coordinate."""

    name: str
    """Its name in the results."""
    dtype: str
    """NumPy's name of its type."""
    dims: tuple[str, ...]
    """Names of its dimensions."""
    shape: tuple[int, ...]
    """Their lengths."""
    attributes: Mapping[str, Any]
    """Of CF."""
    offset: int
    """First byte in the data."""


@dataclass(frozen=True, slots=True)
class SavedState:
    """What a state file says."""

    stream: str
    """Name of the stream."""
    clock: Clock
    """Its calendar."""
    runs: int
    """Of how many separate runs it is merged; 1 for one run, and for a chain of jobs."""
    number: int
    """Number of the last step, counted through a chain of jobs."""
    timeline: Mapping[str, Any]
    """As `Timeline.to_wire` gives it."""
    errors: Mapping[str, str]
    """What failed in users' operators."""
    attributes: Mapping[str, Any]
    """The stream's."""
    content: Mapping[str, Any]
    """Operators and windows as the configuration has them."""
    fields: Mapping[str, SavedField]
    """By the diagnostic's key."""
    coordinates: tuple[SavedArray, ...]
    """Of the results."""
    data_bytes: int
    """Length of the data."""
    variables: tuple[str, ...] = ()
    """The stream's, by which attributes of other paths are told from theirs."""
    complete: bool = True
    """Whether its results lack nothing."""
    path: Path = Path()
    """The file."""
    begin: int = 0
    """First byte of the data in the file."""

    @property
    def period(self) -> tuple[float, float]:
        """Times of the first and the last step."""
        _, last, _, _, first = self.timeline["numbers"]
        return first, last

    @property
    def late(self) -> int:
        """Steps that were left out so far."""
        return int(self.timeline["numbers"][2])

    @property
    def missing(self) -> int:
        """Steps that were expected in gaps so far."""
        return int(self.timeline["numbers"][3])

    @property
    def keys(self) -> Keys:
        """Spans that the last step is in."""
        return {name: None if key is None else tuple(key) for name, key in self.timeline["current"].items()}

    def inherited(self, diagnostic: str) -> Inherited:
        """Return what the file has of a diagnostic."""
        item = self.fields[diagnostic]
        offsets = {slot: self.begin + offset for slot, offset in item.offsets.items()}
        last = self.period[1]
        return Inherited(str(self.path), item.field.shape, item.dtype, offsets, self.keys, self.number, last)

    @property
    def before(self) -> Before:
        """What a run that goes on from it must know."""
        states = {key: self.inherited(key) for key in self.fields}
        return Before(self.number, self.late, self.missing, self.timeline, self.errors, states)

    def coordinate(self, item: SavedArray) -> Array:
        """Read a coordinate."""
        size = int(np.prod(item.shape))
        values: Array = np.fromfile(self.path, np.dtype(item.dtype), size, offset=self.begin + item.offset)
        return values.reshape(item.shape)

    def to_wire(self) -> bytes:
        """Return the header."""
        message = {
            "stream": self.stream,
            "clock": [self.clock.units, self.clock.calendar],
            "numbers": [self.runs, self.number, self.data_bytes],
            "timeline": self.timeline,
            "errors": dict(self.errors),
            "attributes": dict(self.attributes),
            "content": self.content,
            "variables": self.variables,
            "complete": self.complete,
            "fields": {name: _field_to_wire(item) for name, item in self.fields.items()},
            "coordinates": [
                [item.name, item.dtype, item.dims, item.shape, dict(item.attributes), item.offset]
                for item in self.coordinates
            ],
        }
        packed: bytes = msgpack.packb(message, default=str)  # YAML makes dates of some texts
        return packed

    @classmethod
    def from_wire(cls, packed: bytes, path: Path, begin: int) -> "SavedState":
        """Take the header of a file."""
        message = msgpack.unpackb(packed, strict_map_key=False)
        runs, number, data_bytes = message["numbers"]
        return cls(
            message["stream"],
            Clock(*message["clock"]),
            runs,
            number,
            message["timeline"],
            message["errors"],
            message["attributes"],
            message["content"],
            {name: _field_from_wire(item) for name, item in message["fields"].items()},
            tuple(
                SavedArray(name, dtype, tuple(dims), tuple(shape), attributes, offset)
                for name, dtype, dims, shape, attributes, offset in message["coordinates"]
            ),
            data_bytes,
            tuple(message.get("variables", ())),
            message.get("complete", True),
            path,
            begin,
        )


def _field_to_wire(item: SavedField) -> list[Any]:
    field = item.field
    told = [field.name, field.dtype, field.shape, field.dims, dict(field.attributes), dict(field.other_units)]
    if field.map is not None:
        told.append([field.map.name, field.map.shape, field.map.points, field.map.digest])
    return [dict(item.meaning), told, item.dtype, [[*slot, offset] for slot, offset in item.offsets.items()]]


def _field_from_wire(message: list[Any]) -> SavedField:
    meaning, (name, dtype, shape, dims, attributes, units, *maps), values, places = message
    offsets = {StateSlot(level, window, tuple(key)): offset for level, window, key, offset in places}
    # Where its points lie is in the file of no run that is over: its digest tells whether another one has them so.
    own = next((PointMap(of, tuple(grid), points, digest, "") for of, grid, points, digest in maps), None)
    field = ResultField(name, dtype, tuple(shape), tuple(dims), attributes, units, own)
    return SavedField(meaning, field, values, offsets)


class StateWriter:
    """Writes one state file under a temporary name.

    Parameters
    ----------
    path
        Where the file goes.
    state
        What its header says; its offsets say what lies where.
    """

    def __init__(self, path: Path, state: SavedState) -> None:
        self._target, self._header = path, state.to_wire()
        begin = -(-(PREFIX.size + len(self._header)) // PAGE_BYTES) * PAGE_BYTES
        self.state = replace(state, path=path.with_name(f".{path.name}.new"), begin=begin)
        """What is being written; tasks fill in the data at its path."""
        with self.state.path.open("wb") as file:
            file.truncate(begin + state.data_bytes)

    def put(self, offset: int, values: Array) -> None:
        """Write an array into the data."""
        with self.state.path.open("r+b") as file:
            file.seek(self.state.begin + offset)
            file.write(np.ascontiguousarray(values).tobytes())

    def finish(self) -> SavedState:
        """Let the file appear, whole and on disk."""
        with self.state.path.open("r+b") as file:
            checked = _checksum(file, self.state.begin)
            size, check = self.state.data_bytes, zlib.crc32(self._header)
            file.seek(0)
            file.write(PREFIX.pack(MAGIC, VERSION, len(self._header), size, check, checked) + self._header)
            file.flush()
            os.fsync(file.fileno())
        self.state.path.rename(self._target)
        directory = os.open(self._target.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
        return replace(self.state, path=self._target)


def _checksum(file: Any, begin: int) -> int:
    file.seek(begin)
    check = 0
    while part := file.read(CHECKED_BYTES):
        check = zlib.crc32(part, check)
    return check


def read_state(path: Path) -> SavedState:
    """Read and check a state file.

    Parameters
    ----------
    path
        The file, or the output directory that has it.

    Raises
    ------
    ConfigError
        If there is none, or it is another sort of file or of another version.
    DamagedError
        If it is cut short or changed.
    """
    path = path / STATE_FILE if path.is_dir() else path
    try:
        with path.open("rb") as file:
            return _read(file, path)
    except OSError as error:
        raise ConfigError(f"can't read the state {path}: {error.strerror}; the first run of a chain has none") from None


def _read(file: Any, path: Path) -> SavedState:
    prefix = file.read(PREFIX.size)
    if prefix[: len(MAGIC)] != MAGIC:
        raise ConfigError(f"{path} is no state of bbflow: give the {STATE_FILE} of an output directory")
    _check_length(path, len(prefix), PREFIX.size)
    _, version, header_bytes, data_bytes, header_check, data_check = PREFIX.unpack(prefix)
    if version != VERSION:
        raise ConfigError(f"{path} is a state of version {version}, but this bbflow reads version {VERSION}")
    begin = -(-(PREFIX.size + header_bytes) // PAGE_BYTES) * PAGE_BYTES
    _check_length(path, os.fstat(file.fileno()).st_size, begin + data_bytes)
    header = file.read(header_bytes)
    if zlib.crc32(header) != header_check or _checksum(file, begin) != data_check:
        raise DamagedError(f"{path} is damaged: its checksum is wrong; take a copy, or go on from an earlier state")
    return SavedState.from_wire(header, path, begin)


def _check_length(path: Path, length: int, expected: int) -> None:
    if length != expected:
        raise DamagedError(
            f"{path} is damaged: it has {length} bytes, but should have {expected}; take a copy, or go on from an "
            "earlier state"
        )
