"""State files: what an analysis kept at its end, for a run that continues and for `bbflow merge`.

A file is a prefix (magic, version, lengths, checksums), a header in MessagePack, and from the next page on the arrays
that the header places: the states as `StateLayout` lays them out for a whole field, and coordinates.
"""

import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from bbflow.errors import ConfigError, DamagedError, naming
from bbflow.net.decoders import msgpack_decoder
from bbflow.operators.steps import Array
from bbflow.operators.windows.calendars import Clock
from bbflow.stream.point_maps import PointMap
from bbflow.transit.output.claiming import STATE_FILE
from bbflow.transit.output.fields import ResultField
from bbflow.transit.spans.slots import Keys, StateSlot
from bbflow.transit.spans.timeline import Timeline
from bbflow.transit.states.inherited import Before, Inherited
from bbflow.transit.states.written import pack

MAGIC, VERSION = b"bbflow state", 2
PREFIX = struct.Struct("<12sIQQII")
"""Magic, version, bytes of the header and of the data, checksums (CRC-32) of both."""
PAGE_BYTES = 4096
CHECKED_BYTES = 1 << 20
"""How much is read at a time for the checksum."""


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


class SavedArray(msgspec.Struct, frozen=True, array_like=True):
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
    timeline: Timeline
    """The spans that are alive."""
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
    """The stream's, to tell their attributes from those of other paths."""
    complete: bool = True
    """Whether its results lack nothing."""
    places: Mapping[str, str] = field(default_factory=dict)
    """Variables by which fields are placed, such as masks and weights, to digests of their values."""
    path: Path = Path()
    """The file."""
    begin: int = 0
    """First byte of the data in the file."""

    @property
    def period(self) -> tuple[float, float]:
        """Times of the first and the last step."""
        numbers = self.timeline.numbers
        assert numbers.first is not None
        assert numbers.last is not None
        return numbers.first, numbers.last

    @property
    def late(self) -> int:
        """Steps that were left out so far."""
        return self.timeline.numbers.late

    @property
    def missing(self) -> int:
        """Steps that were expected in gaps so far."""
        return self.timeline.numbers.missing

    @property
    def keys(self) -> Keys:
        """Spans that the last step is in."""
        assert self.timeline.current is not None
        return self.timeline.current

    def inherited(self, diagnostic: str) -> Inherited:
        """Return what the file has of a diagnostic."""
        item = self.fields[diagnostic]
        offsets = {slot: self.begin + offset for slot, offset in item.offsets.items()}
        last = self.period[1]
        return Inherited(str(self.path), item.field.shape, item.dtype, offsets, self.keys, self.number, last)

    @property
    def before(self) -> Before:
        """What a run that continues from it must know."""
        states = {key: self.inherited(key) for key in self.fields}
        return Before(self.number, self.timeline, self.errors, states)

    def coordinate(self, item: SavedArray) -> Array:
        """Read a coordinate."""
        size = int(np.prod(item.shape))
        values: Array = np.fromfile(self.path, np.dtype(item.dtype), size, offset=self.begin + item.offset)
        return values.reshape(item.shape)

    @property
    def header(self) -> "Header":
        """What stands in the file."""
        return Header(
            stream=self.stream,
            clock=(self.clock.units, self.clock.calendar),
            numbers=Numbers(self.runs, self.number, self.data_bytes),
            timeline=self.timeline,
            errors=self.errors,
            attributes=self.attributes,
            content=self.content,
            variables=self.variables,
            complete=self.complete,
            places=self.places,
            fields={name: FieldRecord.of(item) for name, item in self.fields.items()},
            coordinates=self.coordinates,
        )


class Numbers(NamedTuple):
    """Of a saved state."""

    runs: int
    """Of how many separate runs it is merged."""
    number: int
    """Number of the last step."""
    data_bytes: int
    """Length of the data."""


class MapRecord(msgspec.Struct, frozen=True, array_like=True):
    """Where a field's points lie, as the header has it: as `PointMap`.

    Its file is in the output of no run that is over: the digest tells whether another one has the points so.
    """

    name: str
    shape: tuple[int, ...]
    points: int
    digest: str


class ResultRecord(msgspec.Struct, frozen=True, array_like=True):
    """What the store must know of a field, as the header has it: as `ResultField`."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    dims: tuple[str, ...]
    attributes: Mapping[str, Any]
    other_units: Mapping[str, str]
    map: MapRecord | None


class FieldRecord(msgspec.Struct, frozen=True, array_like=True):
    """The states of one diagnostic, as the header has them: as `SavedField`."""

    meaning: Mapping[str, str]
    field: ResultRecord
    dtype: str
    offsets: tuple[tuple[str, str, tuple[int, ...], int], ...]
    """The parts of each state's place, and its first byte."""

    @classmethod
    def of(cls, saved: SavedField) -> "FieldRecord":
        """Return what the header has of a diagnostic."""
        field, points = saved.field, saved.field.map
        own = None if points is None else MapRecord(points.name, points.shape, points.points, points.digest)
        told = ResultRecord(
            field.name, field.dtype, field.shape, field.dims, field.attributes, field.other_units, own
        )  # fmt: skip
        return cls(saved.meaning, told, saved.dtype, tuple((*slot, offset) for slot, offset in saved.offsets.items()))

    @property
    def saved(self) -> SavedField:
        """What it says."""
        field, points = self.field, self.field.map
        own = None if points is None else PointMap(points.name, points.shape, points.points, points.digest, "")
        told = ResultField(
            field.name, field.dtype, field.shape, field.dims, field.attributes, field.other_units, own
        )  # fmt: skip
        offsets = {StateSlot(level, window, key): offset for level, window, key, offset in self.offsets}
        return SavedField(self.meaning, told, self.dtype, offsets)


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """What a state file says, as `SavedState`."""

    stream: str
    clock: tuple[str, str]
    """Units and calendar."""
    numbers: Numbers
    timeline: Timeline
    errors: Mapping[str, str]
    attributes: Mapping[str, Any]
    content: Mapping[str, Any]
    fields: Mapping[str, FieldRecord]
    coordinates: tuple[SavedArray, ...]
    variables: tuple[str, ...] = ()
    complete: bool = True
    places: Mapping[str, str] = {}

    def state(self, path: Path, begin: int) -> SavedState:
        """Return what a file says, whose data begin with some byte."""
        return SavedState(
            self.stream,
            Clock(*self.clock),
            self.numbers.runs,
            self.numbers.number,
            self.timeline,
            self.errors,
            self.attributes,
            self.content,
            {name: item.saved for name, item in self.fields.items()},
            self.coordinates,
            self.numbers.data_bytes,
            self.variables,
            self.complete,
            self.places,
            path,
            begin,
        )


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
        self._target, self._header = path, pack(state.header)
        begin = -(-(PREFIX.size + len(self._header)) // PAGE_BYTES) * PAGE_BYTES
        self.state = replace(state, path=path.with_name(f".{path.name}.new"), begin=begin)
        """What is being written; tasks fill in the data at its path."""
        with self._opened("wb") as file:
            file.truncate(begin + state.data_bytes)

    def put(self, offset: int, values: Array) -> None:
        """Write an array into the data."""
        with self._opened() as file:
            file.seek(self.state.begin + offset)
            file.write(np.ascontiguousarray(values).tobytes())

    def finish(self) -> SavedState:
        """Publish the file, whole and on disk."""
        with self._opened() as file:
            checked = _checksum(file, self.state.begin)
            size, check = self.state.data_bytes, zlib.crc32(self._header)
            file.seek(0)
            file.write(PREFIX.pack(MAGIC, VERSION, len(self._header), size, check, checked) + self._header)
            # On the disk before it has its name: once the nodes are gone nothing else has what it holds.
            file.flush()
            os.fsync(file.fileno())
        self.state.path.rename(self._target)
        # The rename itself is on the disk only with the directory.
        directory = os.open(self._target.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
        return replace(self.state, path=self._target)

    @contextmanager
    def _opened(self, mode: str = "r+b") -> Iterator[Any]:
        with naming(str(self.state.path)), self.state.path.open(mode) as file:
            yield file


def _checksum(file: Any, begin: int) -> int:
    file.seek(begin)
    check, buffer = 0, memoryview(bytearray(CHECKED_BYTES))  # used again: a new one each time would be new pages
    while size := file.readinto(buffer):
        check = zlib.crc32(buffer[:size], check)
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
        with naming(str(path)), path.open("rb") as file:
            return _read(file, path)
    except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
        raise ConfigError(f"can't read the state {path}: {error.strerror}; the first run of a chain has none") from None


def _read(file: Any, path: Path) -> SavedState:
    prefix = file.read(PREFIX.size)
    if prefix[: len(MAGIC)] != MAGIC:
        raise ConfigError(f"{path} isn't a state of bbflow: give the {STATE_FILE} of an output directory")
    _check_length(path, len(prefix), PREFIX.size)
    _, version, header_bytes, data_bytes, header_check, data_check = PREFIX.unpack(prefix)
    if version != VERSION:
        raise ConfigError(
            f"{path} is a state of version {version}, but this bbflow reads version {VERSION}: continue from it with "
            "the bbflow that wrote it"
        )
    begin = -(-(PREFIX.size + header_bytes) // PAGE_BYTES) * PAGE_BYTES
    _check_length(path, os.fstat(file.fileno()).st_size, begin + data_bytes)
    header = file.read(header_bytes)
    if zlib.crc32(header) != header_check or _checksum(file, begin) != data_check:
        raise DamagedError(f"{path} is damaged: its checksum is wrong; take a copy, or continue from an earlier state")
    told: Header = msgpack_decoder(Header).decode(header)
    return told.state(path, begin)


def _check_length(path: Path, length: int, expected: int) -> None:
    if length != expected:
        raise DamagedError(
            f"{path} is damaged: it has {length} bytes, but should have {expected}; take a copy, or continue from an "
            "earlier state"
        )
