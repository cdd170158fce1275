"""raw.zarr: the raw steps that are kept, one chunk for each step and variable, many chunks in a file."""

import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import dropwhile, groupby
from pathlib import Path
from typing import Any

import numpy as np

from bbflow.configuring.settings import RawConfig
from bbflow.drain.block_tables import TYPE, BlockTables, LandedBlock, needs_table, table_name
from bbflow.drain.coordinates import is_same
from bbflow.drain.forms import Form, form_of, is_short, storage_of
from bbflow.drain.stores import HIDDEN, LAST_HIT, LEFT_OUT, MIXED, NAME, WHOLE_SINCE
from bbflow.errors import ConfigError
from bbflow.operators.decoding import marks_of, meant_dtype, named_hole, written_fill
from bbflow.operators.windows.calendars import dated, shows_gaps
from bbflow.stores.moved import is_moved, place_of
from bbflow.stream.cf import CF_VERSION, OWN, STEP, Encoding, StreamAttributes
from bbflow.stream.records import BlockForm
from bbflow.view.layout import fill_of
from bbflow.zarr_store.chunks import TEXT
from bbflow.zarr_store.growing import GrowingZarr, fill_in_metadata
from bbflow.zarr_store.stored_names import stored_name

Array = np.ndarray[Any, Any]


def wanted(raw: RawConfig, number: int) -> bool:
    """Whether a step is drained."""
    return raw.wanted and number % raw.every == 0


def is_asked_for(form: BlockForm, raw: RawConfig) -> bool:
    """Whether a block's variable is to be drained."""
    return raw.variables is None or form.name in raw.variables


def type_of(form: BlockForm) -> str:
    """Name a type as arrays of a store have it."""
    return TEXT if form.type == "string" else form.dtype.name


def _ends(times: Array) -> Array:
    """Return the smallest and the largest of times, and NaN if that is among them."""
    known = times[~np.isnan(times)]
    ends = [known.min(), known.max()] if len(known) else []
    return np.array(ends + [np.nan] * (len(known) < len(times)), "f8")


def _called(name: str) -> dict[str, str]:
    """Return what an array has to say of its variable's name."""
    return {} if stored_name(name) == name else {NAME: name}


class RawStore:
    """The one writer of the metadata of ``raw.zarr``.

    Parameters
    ----------
    path
        The store; an existing one is continued.
    raw
        What is kept.
    attributes
        The stream's attributes.
    time
        The variable that is the time axis' coordinate, and its CF attributes; None if steps have no time.

    Raises
    ------
    ConfigError
        If an existing store has its steps along another axis, or a file of its axes is gone, or was cut off.
    """

    def __init__(
        self, path: Path, raw: RawConfig, attributes: StreamAttributes, time: tuple[str, Mapping[str, str]] | None
    ) -> None:
        self._store = GrowingZarr(path)
        self._raw = raw
        self._attributes = attributes
        self._axis = STEP if time is None else stored_name(time[0])
        self._forms: dict[str, Form] = {}
        self.tables = BlockTables(self._store)
        """What has no array."""
        self._shown = self._variables
        """What was there at the last commit."""
        self._hit: dict[str, int] = {}
        self._left_out: list[str] = list(self._store.attribute(LEFT_OUT, ()))
        self.whole_since: dict[str, int] = json.loads(self._store.attribute(WHOLE_SINCE, "{}"))
        """Variable to the first step, by its place, since which each has had all its values."""
        self._written: dict[str, set[int]] = {}
        """Array of axes and single values to which of its files this analysis has written."""
        self._damaged: dict[str, Path] = {}
        """Array to a file of it that was no more what was written when further steps came."""
        self.path = path
        if self._store.is_new:
            self._store.create(STEP, (self._axis,), (0,), "i8", {"long_name": "step of the simulation"}, (512,))
            if time is not None:
                described = attributes.of(time[0]) | dict(time[1]) | _called(time[0])
                self._store.create(self._axis, (self._axis,), (0,), "f8", described, (512,))
            # An attribute whose variable comes later isn't the stream's.
            self._store.commit(**attributes.of_stream_by_now | {"Conventions": CF_VERSION})
        elif (axis := self._store.metadata(STEP)["dimension_names"][0]) != self._axis:
            raise ConfigError(f"{path} has its steps along {axis!r}, not {self._axis!r}: give another output")
        for name in (STEP, self._axis):
            self._check_whole(name)
        self._times = np.empty(0) if time is None else _ends(self._store.read(self._axis))
        """The first, the last and whether there is none, of all times."""

    def _check_whole(self, name: str) -> None:
        """Check that an axis has all that was written: without its numbers or times, steps would be others."""
        if name not in self._store or place_of(self.path) is not None:
            return
        chunks, length = self._store.chunks(name), self._store.metadata(name)["shape"][0]
        for index in range(-(-length // chunks.shape[0])):
            if not chunks.is_whole(index):
                raise ConfigError(
                    f"{chunks.path(index)} was removed or cut off, so steps in it are lost: give another output"
                )

    @property
    def last_hit(self) -> int | None:
        """The last step that counts that was chosen; None if none was."""
        number: int | None = self._store.attribute(LAST_HIT)
        return number

    def look_for_lost(self) -> None:
        """Note which axes and single values lack what this analysis has written, and which variables have cut files.

        The latter also where an analysis before this one has written them, and values lack in some steps.
        """
        moves = place_of(self.path) is not None
        for name, indices in self._written.items():
            chunks = self._store.chunks(name)
            gone = (chunks.path(index) for index in sorted(indices) if not chunks.is_whole(index))
            path = self._damaged.get(name) or next((path for path in gone if not (moves and is_moved(path))), None)
            if path is not None:
                self.note_lost(name, path)
        for name in self._store.names(self._axis):
            variable = self._store.metadata(name)["attributes"].get(NAME, name)
            cut = () if variable in self.left_out else self._cut_files(name)
            path = next((path for path in cut if not (moves and is_moved(path))), None)
            if path is not None:
                self.note_lost(variable, path)

    def _cut_files(self, name: str) -> Iterator[Path]:
        metadata, chunks = self._store.metadata(name), self._store.chunks(name)
        length, *others = metadata["shape"]
        for index in range(-(-length // metadata["chunk_grid"]["configuration"]["chunk_shape"][0])):
            path = chunks.path(index)
            if is_short(path, metadata) if others else path.exists() and not chunks.is_whole(index):
                yield path

    def note_lost(self, name: str, path: Path) -> None:
        """Note that a variable lacks what was in a file."""
        where = path.relative_to(self.path).as_posix()
        self.leave_out(name, f"{where} was removed or cut off during the run, so it lacks steps")
        self._store.commit(**{LEFT_OUT: self._left_out})

    def note_hit(self, number: int) -> None:
        """Note, with the next commit, the last step so far that was chosen."""
        self._hit = {LAST_HIT: number}

    def committed_steps(self) -> list[int]:
        """Return the steps that the store has."""
        count = int(self._store.attribute("bbflow_steps", 0))
        return [int(number) for number in self._store.read(STEP)[:count]]

    def commit_late(self, attributes: Mapping[str, Any]) -> None:
        """Set the attributes that have come since the first step, of all that the stream has by ADIOS2's names."""
        places = {name: name for name in self._store.arrays} | {f"{name}/value": name for name in self._store.groups}
        told = {place: self._store.metadata(own)["attributes"] for place, own in places.items()}
        owners = {place: str(told[place].get(NAME, own)) for place, own in places.items()}
        self._attributes = self._attributes.with_late(attributes, owners.values())
        for place, owner in owners.items():
            dtype, is_bytes = self._store.metadata(place)["data_type"], told[place].get(TYPE) == "long double"
            is_number = dtype != TEXT and not is_bytes
            late = self._described(owner, np.dtype(dtype)) if is_number else self._attributes.of(owner)
            if HIDDEN["units"] not in told[place]:
                self._store.describe_late(place, late)
        self._store.commit_late(self._attributes.of_stream)

    def is_coordinate(self, name: str) -> bool:
        """Whether a coordinate variable of this name is there."""
        return stored_name(name) in self._store.names(stored_name(name))

    def add_coordinate(self, name: str, values: Array, *, hole: Any = None) -> None:
        """Write a coordinate variable; what stands in holes is named, unless the stream names such a value."""
        own, stored = named_hole(hole) | self._described(name, values.dtype), stored_name(name)
        self._store.create(stored, (stored,), values.shape, values.dtype, own, chunks=values.shape)
        self._store.write(stored, 0, values)

    def compare_coordinate(self, name: str, landed: Iterable[LandedBlock]) -> None:
        """Put blocks of a coordinate into a table, from the first one on that differs from what the store has."""
        whole, landed = self._store.read(stored_name(name)), [*landed]
        if not self.tables.has(name):
            steps = [[*own] for _, own in groupby(landed, lambda item: item.step)]
            differ = dropwhile(lambda own: is_same(whole, [(item.values, item.block) for item in own]), steps)
            landed = [item for own in differ for item in own]
        if landed and not self.tables.why_not(landed[0].block):
            self.add_blocks(name, landed)

    @property
    def changes(self) -> list[str]:
        """Return for variables with an array, and coordinates, from which step on they are in a table."""
        told = []
        for table in self._store.groups:
            name = str(self._store.metadata(table)["attributes"][NAME])
            if stored_name(name) in self._store:
                how = "changes with time" if self.is_coordinate(name) else "changes its shape"
                first = int(self._store.read(f"{table}/step")[0])
                told.append(f"{name} {how}: from step {first} on it is in the group {table} of raw.zarr")
        if HIDDEN["units"] in self._store.metadata(self._axis)["attributes"]:
            told.append(
                "not all steps have a date, and readers would take that of others for theirs: the times are numbers"
            )
        return told

    @property
    def left_out(self) -> frozenset[str]:
        """Names of the variables that are left out from now on."""
        return frozenset(text.rpartition(": ")[0] for text in self._left_out)

    def leave_out(self, name: str, why: str) -> None:
        """Note, with the next commit, that a variable is left out from now on; what is there of it stays."""
        self._left_out.append(f"{name}: {why}")

    def admit(self, like: BlockForm) -> str:
        """Make a variable's array, if it isn't there; say how a block differs from one that is, if it does."""
        like, name = self._in_grid(like), stored_name(like.name)
        if name not in self._store:
            self._create(like)
            return ""
        node = self._store.metadata(name)
        if (other := node["attributes"].get(NAME, name)) != like.name:
            return f"one name in stores with {other}"
        dtype, shape = node["data_type"], tuple(node["shape"][1:])
        is_alike = (type_of(like), like.shape) == (dtype, shape)
        return "" if is_alike else f"{type_of(like)} of shape {like.shape} after {dtype} of shape {shape}"

    def why_not(self, form: BlockForm) -> str:
        """Return why a variable can't be in the store; nothing if it can."""
        if form.name.startswith(OWN):
            return f"names that begin with {OWN} are for what bbflow adds"
        encoding = self._attributes.encoding(form.name)
        if not (math.isfinite(encoding.scale) and math.isfinite(encoding.offset)):
            return f"scale_factor {encoding.scale:g} and add_offset {encoding.offset:g} make no number of its values"
        return ""

    def needs_table(self, form: BlockForm) -> bool:
        """Whether a variable's blocks have no array, of any kind of shape or with rows in an order of their own."""
        return needs_table(form) or self._attributes.unordered(form.name) is not None

    def is_reshaped(self, like: BlockForm) -> bool:
        """Whether a block differs from its variable's array in the shape alone."""
        like, name = self._in_grid(like), stored_name(like.name)
        node: Mapping[str, Any] = self._store.metadata(name) if name in self._store else {"attributes": {NAME: None}}
        is_own = node["attributes"].get(NAME, name) == like.name and node.get("data_type") == type_of(like)
        return is_own and tuple(node["shape"][1:]) != like.shape

    def add_blocks(self, name: str, landed: Sequence[LandedBlock]) -> None:
        """Add blocks of a variable to its table; they are shown with the next commit."""
        first = landed[0].values.dtype
        is_number = first.kind in "iuf" and first != np.longdouble
        self.tables.add(name, self._described(name, first) if is_number else self._attributes.of(name), landed)
        self._store.describe(table_name(name), **{NAME: name})

    def forms(self, likes: Mapping[str, BlockForm]) -> tuple[Form, ...]:
        """Return how the arrays of some steps, which were admitted, lie in files.

        Parameters
        ----------
        likes
            One block of each variable of these steps.

        Raises
        ------
        ConfigError
            If the store has one that the drain can't continue with.
        """
        return tuple(self._form(like) for like in likes.values() if like.shape)

    def _write_values(self, name: str, start: int, values: Sequence[Any]) -> None:
        chunks = self._store.chunks(name)
        filled = [chunks.fill if value is None else value for value in values]
        self._write(name, start, np.array(filled, chunks.stored))

    def _write(self, name: str, start: int, values: Array) -> None:
        chunks, own = self._store.chunks(name), self._written.setdefault(name, set())
        first, end = start // chunks.shape[0], -(-(start + len(values)) // chunks.shape[0])
        if first in own and not chunks.is_whole(first):
            self._damaged.setdefault(name, chunks.path(first))  # the store makes it whole again, without what was there
        own.update(range(first, end))
        self._store.write(name, start, values)

    def _in_grid(self, like: BlockForm) -> BlockForm:
        return replace(like, shape=self._attributes.grid(like.name, like.shape))

    def is_filled(self, name: str) -> bool:
        """Whether a field whose blocks have all their points has all places of its grid."""
        return name not in self._attributes.maps or self._attributes.maps[name].is_whole

    def _form(self, like: BlockForm) -> Form:
        if like.name not in self._forms:
            like = self._in_grid(like)
            name = stored_name(like.name)
            metadata, fill = self._store.metadata(name), self._store.chunks(name).fill
            form = form_of(like, self._raw, metadata, fill)
            self._forms[like.name] = replace(form, map=self._attributes.maps.get(like.name))
        return self._forms[like.name]

    def _create(self, like: BlockForm) -> None:
        dims = (self._axis, *map(stored_name, self._attributes.dimensions(like.name, like.shape)))
        if like.type == "string":
            described = self._attributes.of(like.name) | _called(like.name)
            self._store.create(stored_name(like.name), dims, (0,), TEXT, described, (512,))
            return
        fill = fill_of(written_fill(self._attributes.encoding(like.name), like.dtype), like.dtype)
        chunks, storage = (None, storage_of(like, self._raw, dims[1:])) if like.shape else ((512,), {})
        filled = storage | {"fill_value": fill_in_metadata(fill)}
        name, shape = stored_name(like.name), (0, *like.shape)
        self._store.create(
            name, dims, shape, like.dtype, self._described(like.name, like.dtype), chunks, storage=filled
        )

    def _described(self, name: str, dtype: np.dtype[Any]) -> dict[str, Any]:
        """Return what an array has to say of its variable, with what stands for a missing value."""
        return self._attributes.of(name) | marks_of(self._attributes.encoding(name), dtype) | _called(name)

    def _write_times(self, start: int, times: Sequence[float]) -> None:
        """Write times, NaN where there is no date; where readers would see a date there, none is shown at all."""
        described = self._store.metadata(self._axis)["attributes"]
        own = dated(times, described, self._attributes.encoding(self._axis).missing)
        self._times = _ends(np.concatenate([self._times, own]))
        if not shows_gaps(self._times, described):
            shown = {hidden: described.get(name) for name, hidden in HIDDEN.items()}
            self._store.describe(self._axis, **dict.fromkeys(HIDDEN), **shown)
        self._write(self._axis, start, own)

    @property
    def lacking(self) -> list[str]:
        """Return which variables are left out from some step on, and which have a value that isn't told from holes."""
        found = ((name, self._store.metadata(name)["attributes"]) for name in sorted(self._variables))
        return self._left_out + [
            f"{told.get(NAME, name)}: {told[MIXED]} is one of its values, and stands where steps or points lack it: "
            "let the program name a _FillValue"
            for name, told in found
            if MIXED in told and "missing_value" in told
        ]

    def is_bare(self, form: BlockForm) -> bool:
        """Whether a block is of integers without a value that stands for missing ones."""
        return form.type != "string" and form.dtype.kind in "iu" and not self._attributes.encoding(form.name).missing

    def is_mixed(self, name: str, least: Any, most: Any) -> bool:
        """Whether values between two may be what stands for missing ones in the store."""
        return least is not None and bool(least <= self._store.chunks(stored_name(name)).fill <= most)

    @property
    def _variables(self) -> frozenset[str]:
        return frozenset(self._store.names(self._axis)) - {STEP, self._axis}

    def _name_fills(self, start: int, whole: Collection[str]) -> None:
        """Name what stands in holes of integers, so that readers mask it; without holes they stay integers there."""
        there = self._variables
        late = there - self._shown if start else frozenset()
        self._shown = there
        for name in (there - frozenset(map(stored_name, whole))) | late:
            node = self._store.metadata(name)
            if node["data_type"] == TEXT:
                continue
            if np.dtype(node["data_type"]).kind in "iu" and "missing_value" not in node["attributes"]:
                unsigned = {"true": True, "false": False}.get(node["attributes"].get("_Unsigned", ""))
                dtype = np.dtype(node["data_type"])
                fill = np.asarray(node["fill_value"], dtype).view(meant_dtype(Encoding(unsigned=unsigned), dtype))
                self._store.describe(name, missing_value=fill.item())

    def commit(
        self,
        start: int,
        numbers: Sequence[int],
        times: Sequence[float],
        values: Mapping[str, Sequence[Any]],
        whole: Collection[str] = (),
        filled: Collection[str] = (),
    ) -> None:
        """Show steps whose arrays tasks have written, and nothing of later ones that may be there already.

        Parameters
        ----------
        start
            Index of the first one on the time axis.
        numbers, times
            Of the steps.
        values
            Name to single values of these steps; where one is None, it is missing.
        whole
            Names of the variables that have all their values in each of these steps.
        filled
            Names of the variables that have a value that stands for missing ones as well.
        """
        for name in map(stored_name, filled):
            self._store.describe(name, **{MIXED: self._store.metadata(name)["fill_value"]})
        self._name_fills(start, whole)
        for name, own in values.items():
            self._write_values(stored_name(name), start, own)
        self._write(STEP, start, np.asarray(numbers))
        if self._axis != STEP:
            self._write_times(start, times)
        end = start + len(numbers)
        # Also those that have no value in these steps: all arrays along an axis are as long as it.
        for name in self._store.names(self._axis):
            self._store.resize(name, end)
        self.whole_since = {name: self.whole_since.get(name, start) for name in sorted(whole)}
        left_out = {LEFT_OUT: self._left_out} if self._left_out else {}
        told = {WHOLE_SINCE: json.dumps(self.whole_since)}
        self._store.commit(bbflow_steps=end, **told, **left_out, **self._hit)
