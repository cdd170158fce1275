"""A Zarr store that grows while others read it, without torn values.

Readers that open the store through its consolidated metadata (as xarray does) see the shapes of the last
`commit`. New data are written beyond those shapes first; one atomic rename of the root's metadata then shows
all of them at once. The store's one writer knows its metadata and never reads them again.
"""

import json
import os
import uuid
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from bbflow.errors import ConfigError, naming
from bbflow.stream.attributes import in_json
from bbflow.zarr_store.chunks import TEXT, Chunks

Array = np.ndarray[Any, Any]
DType = np.dtype[Any]
Node = dict[str, Any]
"""Metadata of an array or a group."""
METADATA, TEMPORARY = "zarr.json", "zarr.new"
GROUP: Node = {"zarr_format": 3, "node_type": "group", "attributes": {}}
STORE_ID = "bbflow_store"
"""Attribute that tells a store from all others, also from those of its name; it stays as long as the store does."""
# Without a directory for each index: a span of 800 arrays costs a fifth less on a disk.
FLAT = {"name": "default", "configuration": {"separator": "."}}
"""How new arrays' files are named: they lie in the array's own directory, not in one for each dimension."""
LENGTH_AT, LENGTH_DIGITS = 16, 8
"""Where an array's metadata have its length: one aligned word, which no reader finds half written."""


class GrowingZarr:
    """Writes one store; it is the only writer of the store's metadata.

    Parameters
    ----------
    path
        Directory of the store. A new one appears whole with its first `commit`. An existing one is continued
        from there; what was written after that is written over.
    renews
        Whether one whose root's metadata are damaged begins anew, as one does from which somebody has removed them.

    Raises
    ------
    ConfigError
        If they are damaged, and it doesn't.
    """

    def __init__(self, path: Path, *, renews: bool = False) -> None:
        self.path = path
        # Of one whose root somebody has removed the directory is there.
        self._root = path if path.exists() else path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        self._is_new, root = not (path / METADATA).exists(), deepcopy(GROUP)
        try:
            root = _read_root(path)
        except ConfigError:
            if not renews:
                raise
            self._is_new = True
        self._attributes: dict[str, Any] = root["attributes"]
        self._id = self._attributes.get(STORE_ID) or uuid.uuid4().hex
        self._nodes: dict[str, Node] = members_of(root)
        self._texts = {name: _text_of(node) for name, node in self._nodes.items()}
        self._chunks: dict[str, Chunks] = {}
        self._changed: dict[str, None] = {}
        self._longer: set[str] = set()
        """Arrays of which only the length has changed since the last commit, unless they are in `_changed`."""
        self._shown = {name: node["shape"][0] for name, node in self._nodes.items() if node.get("shape")}
        """Array to how long readers see it."""
        self._laid_out: set[str] = set()
        self.lost: list[str] = []
        """Files that this writer had written, and found gone or cut off when it wrote into them again."""

    @property
    def is_new(self) -> bool:
        """Whether nothing was committed yet."""
        return self._is_new

    def __contains__(self, name: object) -> bool:
        return name in self._nodes

    def create(
        self,
        name: str,
        dims: Sequence[str],
        shape: Sequence[int],
        dtype: Any,
        attributes: Mapping[str, Any],
        chunks: Sequence[int] | None = None,
        storage: Mapping[str, Any] | None = None,
    ) -> None:
        """Make an array; floating-point values that are never written read as NaN, texts as empty ones.

        Parameters
        ----------
        name
            Its path in the store.
        dims, shape, dtype
            Dimension names, lengths now, and type: NumPy's, or `TEXT`.
        attributes
            CF attributes.
        chunks
            Their shape: as long as the array along all but the first dimension; or 1 along the second one too, for
            `write_cell`. By default one chunk for each index of the first.
        storage
            Other entries of its metadata, such as for chunks that someone else writes in other files.
        """
        for parent in PurePosixPath(name).parents:
            if str(parent) != "." and str(parent) not in self:
                self._keep(str(parent), deepcopy(GROUP))
        node = _text_node() if dtype == TEXT else _array_node(np.dtype(dtype))
        grid = [max(size, 1) for size in (chunks or (1, *shape[1:]))]
        node["chunk_grid"]["configuration"]["chunk_shape"] = grid
        whole = [max(size, 1) for size in shape[1:]]
        assert grid[1:] in (whole, [1, *whole[1:]]), f"{name} is chunked along its first dimensions alone"
        own = {"shape": list(shape), "attributes": in_json(attributes), "dimension_names": list(dims)}
        self._keep(name, node | own | dict(storage or {}))

    @property
    def lengths(self) -> Mapping[str, int]:
        """Array to how long readers see it."""
        return self._shown

    def metadata(self, name: str) -> Mapping[str, Any]:
        """Return what stands in the ``zarr.json`` of an array or group."""
        return self._nodes[name]

    def describe(self, name: str, **attributes: Any) -> None:
        """Set attributes of an array or a group within the store; those that are None are taken away."""
        node, told = self._nodes[name], in_json(attributes)
        now = {key: value for key, value in (node["attributes"] | told).items() if value is not None}
        if node["attributes"] != now:
            self._keep(name, node | {"attributes": now})

    def write(self, name: str, start: int, data: Array) -> None:
        """Write along the first dimension from index `start` on, and lengthen the array if need be."""
        chunks, known, end = self.chunks(name), self._nodes[name]["shape"][0], start + len(data)
        self.resize(name, end)
        rows = chunks.shape[0]
        for index in range(start // rows, -(-end // rows)):
            first = index * rows
            begin, last = max(start, first), min(end, first + rows)
            values = data[begin - start : last - start]
            if len(values) < rows:
                # Beyond what readers see, and next to what was written, it may be written where it lies.
                is_next = begin == known > first and begin >= self._shown.get(name, 0)
                if is_next and chunks.write_part(index, begin - first, values):
                    continue
                whole = np.full(chunks.shape, chunks.fill, chunks.stored)
                if known > first and not chunks.is_whole(index):
                    self.lost.append(chunks.path(index).relative_to(self._root).as_posix())
                elif known > first:  # what lies beyond was left by a writer that died
                    whole[: known - first] = chunks.read(index)[: known - first]
                whole[begin - first : last - first] = values
                values = whole
            chunks.write(index, values)

    def write_cell(self, name: str, row: int, column: int, data: Array) -> None:
        """Write what one index of the first two dimensions has, and lengthen the array if need be.

        Unlike a new row, a cell of a row that is shown is seen at once.
        """
        chunks = self.chunks(name)
        known = self._nodes[name]["shape"][0]
        self.resize(name, row + 1)
        if chunks.shape[1] == 1 and chunks.shape[0] == 1:
            replace(chunks, column=column).write(row, data)
            return
        assert chunks.shape[0] == 1, f"{name} has several rows in a chunk"
        values = np.full(chunks.shape, chunks.fill, chunks.stored)
        if row < known and not chunks.is_whole(row):
            self.lost.append(chunks.path(row).relative_to(self._root).as_posix())
        elif row < known:
            values[:] = chunks.read(row)
        values[0, column] = data
        chunks.write(row, values)

    def resize(self, name: str, end: int) -> None:
        """Lengthen an array's first dimension to at least `end`."""
        node = self._nodes[name]
        if node["shape"][0] >= end:
            return
        longer = node | {"shape": [end, *node["shape"][1:]]}
        # Only in what this process has written the length is known to stand where it can be overwritten.
        if name in self._laid_out and end < 10**LENGTH_DIGITS:
            text = self._texts[name]
            text = f"{text[:LENGTH_AT]}{end:{LENGTH_DIGITS}}{text[LENGTH_AT + LENGTH_DIGITS :]}"
            self._nodes[name], self._texts[name] = longer, text
            self._longer.add(name)
        else:
            self._keep(name, longer)

    def shorten(self, name: str, end: int) -> None:
        """Cut an array's first dimension, for values that take the place of its last ones."""
        node = self._nodes[name]
        self._keep(name, node | {"shape": [end, *node["shape"][1:]]})

    def chunks(self, name: str) -> Chunks:
        """Return what writes an array's chunks, wherever it is taken to.

        A chunk is shown if the array is long enough (see `resize`) when the next `commit` comes.
        """
        if name not in self._chunks:
            node = self._nodes[name]
            shape = tuple(node["chunk_grid"]["configuration"]["chunk_shape"])
            separator = node["chunk_key_encoding"]["configuration"]["separator"]
            fill = _fill_of(node["fill_value"])
            self._chunks[name] = Chunks(self._root / name, shape, node["data_type"], separator, fill)
        return self._chunks[name]

    def read(self, name: str) -> Array:
        """Return an array's values as they are now, committed or not."""
        chunks, shape = self.chunks(name), tuple(self._nodes[name]["shape"])
        columns = shape[1] // max(chunks.shape[1], 1) if len(shape) > 1 else 1
        parts = [
            np.concatenate([replace(chunks, column=at).read(index) for at in range(columns)], 1)
            if columns > 1
            else chunks.read(index)
            for index in range(-(-shape[0] // chunks.shape[0]))
        ]
        found = np.concatenate(parts)[: shape[0]] if parts else np.empty(shape, chunks.stored)
        return found if chunks.dtype == TEXT else found.astype(chunks.dtype, copy=False)

    def restore(self) -> list[str]:
        """Describe again what somebody has removed of the store, but for its values; return its names."""
        gone = [name for name in self._nodes if not (self._root / name / METADATA).exists()]
        for name in gone:
            (self._root / name).mkdir(parents=True, exist_ok=True)
            self._changed[name] = None
        return gone

    def describe_store(self, **attributes: Any) -> None:
        """Set attributes of the store that it hasn't yet, which are shown with the next commit."""
        self._attributes = in_json(attributes) | self._attributes

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return an attribute of the store."""
        return self._attributes.get(name, default)

    def commit_late(self, attributes: Mapping[str, Any]) -> None:
        """Set those attributes of the store that it hasn't yet, and show what was described late."""
        late = {name: value for name, value in attributes.items() if name not in self._attributes}
        if (late or self._changed) and not self._is_new:
            self.commit(**late)

    def describe_late(self, name: str, attributes: Mapping[str, Any]) -> None:
        """Set those attributes of an array that it hasn't yet."""
        known = self._nodes[name]["attributes"]
        self.describe(name, **{own: value for own, value in attributes.items() if own not in known})

    @property
    def arrays(self) -> list[str]:
        """Names of the arrays in the root."""
        return sorted(name for name, node in self._nodes.items() if node["node_type"] == "array" and "/" not in name)

    def names(self, dimension: str, *, in_groups: bool = False) -> list[str]:
        """Names of the arrays in the root, or in its groups, whose first dimension is `dimension`."""
        own = (name for name in self._nodes if ("/" in name) == in_groups)
        dims = {name: self._nodes[name].get("dimension_names") for name in own}
        return sorted(name for name, named in dims.items() if named and named[0] == dimension)

    @property
    def groups(self) -> list[str]:
        """Names of the groups in the root."""
        return sorted(name for name, node in self._nodes.items() if node["node_type"] == "group" and "/" not in name)

    def commit(self, **attributes: Any) -> None:
        """Show readers everything that was written, and set attributes of the store; None takes one away.

        zarr's own calls would set attributes and consolidate in two writes, and a reader between them would
        find the store without consolidated metadata. This is their format in one write.
        """
        # Its own, also if the attributes are those of a stream that was replayed from another store.
        known = self._attributes | in_json(attributes) | {STORE_ID: self._id}
        self._attributes = {name: value for name, value in known.items() if value is not None}
        self._root.mkdir(parents=True, exist_ok=True)
        # For readers that don't use the consolidated metadata. What has only become longer is changed in place: a file
        # system makes a file more slowly than it overwrites one, and ext4 begins to write out what replaces another.
        for name in self._longer.difference(self._changed):
            if not _lengthen(self._root / name, self._texts[name]):
                _replace(self._root / name, self._texts[name])
        for name in self._changed:
            _replace(self._root / name, self._texts[name])
        changed = ((name, self._nodes[name].get("shape")) for name in (*self._changed, *self._longer))
        longer = {name: shape[0] for name, shape in changed if shape}
        self._laid_out |= self._changed.keys()
        self._changed, self._longer = {}, set()
        # Last, and in one rename: all that it names is there by now, and readers see the whole commit or none of it.
        members = ", ".join(f"{_json(name)}: {self._texts[name]}" for name in sorted(self._texts))
        inside = f'{{"kind": "inline", "must_understand": false, "metadata": {{{members}}}}}'
        root = _json(GROUP | {"attributes": self._attributes})
        _replace(self._root, f'{root[:-1]}, "consolidated_metadata": {inside}}}')
        self._shown |= longer
        self._is_new = False
        if self._root != self.path:
            # A new store appears whole: its directory is made under another name.
            self._root.rename(self.path)
            self._root, self._chunks = self.path, {}

    def _keep(self, name: str, node: Node) -> None:
        """Set what an array or group is from the next `commit` on."""
        if name not in self._nodes:
            (self._root / name).mkdir(parents=True, exist_ok=True)
        self._nodes[name], self._texts[name] = node, _text_of(node)
        self._changed[name] = None


def _text_node() -> Node:
    """Describe an array of texts as zarr does."""
    return _array_node(np.dtype("u1")) | {"data_type": TEXT, "fill_value": "", "codecs": [{"name": "vlen-utf8"}]}


def _array_node(dtype: DType) -> Node:
    """Describe an array of a type as zarr does, which takes a third of a second to import."""
    endian = {"configuration": {"endian": "little"}} if dtype.itemsize > 1 else {}
    fill = {"f": "NaN", "c": [0.0, 0.0]}.get(dtype.kind, 0)
    return {
        "shape": [1],
        "data_type": dtype.name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1]}},
        "chunk_key_encoding": FLAT,
        "fill_value": fill,
        "codecs": [{"name": "bytes"} | endian],
        "attributes": {},
        "zarr_format": 3,
        "node_type": "array",
        "storage_transformers": [],
    }


def fill_in_metadata(fill: Any) -> Any:
    """Return a fill value as it stands in the metadata of an array."""
    if isinstance(fill, np.complexfloating):
        return [fill_in_metadata(fill.real), fill_in_metadata(fill.imag)]
    return in_json(fill.item())


def _fill_of(told: Any) -> Any:
    """Take a fill value out of the metadata of an array."""
    if isinstance(told, list):
        return complex(*map(float, told))
    return float(told) if isinstance(told, str) and told else told


def _json(value: Any) -> str:
    return json.dumps(value, allow_nan=False)


def _text_of(node: Node) -> str:
    """Return the JSON of an array or group, with an array's length where `_lengthen` finds it."""
    if not node.get("shape"):
        return _json(node)
    length, *others = node["shape"]
    shape = ", ".join([f"{length:{LENGTH_DIGITS}}", *map(str, others)])
    rest = _json({key: value for key, value in node.items() if key != "shape"})
    return '{"shape": ['.ljust(LENGTH_AT) + f"{shape}], {rest[1:]}"


def _lengthen(directory: Path, text: str) -> bool:
    """Overwrite the length in the metadata of an array, as `_text_of` has laid them out; not if the rest isn't there.

    Returns
    -------
    bool
        Whether that was done: somebody may have removed the file, or cut it off.
    """
    path = os.path.join(directory, METADATA)
    with naming(path):
        try:
            descriptor = os.open(path, os.O_WRONLY)
        except FileNotFoundError:
            return False
        try:
            # JSON's text is in ASCII: as many bytes as characters.
            is_whole = os.fstat(descriptor).st_size == len(text)
            if is_whole:
                os.pwrite(descriptor, text[LENGTH_AT : LENGTH_AT + LENGTH_DIGITS].encode(), LENGTH_AT)
        finally:
            os.close(descriptor)
    return is_whole


def _replace(directory: Path, content: str) -> None:
    temporary = os.path.join(directory, TEMPORARY)
    with naming(temporary):
        with open(temporary, "w") as file:
            file.write(content)
        os.rename(temporary, os.path.join(directory, METADATA))


def _read_root(path: Path) -> Node:
    """Return the metadata of a store's root; an empty one's if there is no store.

    Raises
    ------
    ConfigError
        If they are damaged: somebody else has written there.
    """
    try:
        with naming(str(path / METADATA)):
            root = json.loads((path / METADATA).read_text())
    except FileNotFoundError:
        return deepcopy(GROUP)
    except (ValueError, RecursionError):
        raise ConfigError(f"{path / METADATA} is damaged, it isn't JSON: give another output") from None
    if not (isinstance(root, dict) and isinstance(root.get("attributes"), dict)):
        raise ConfigError(f"{path / METADATA} is damaged, it has no attributes: give another output")
    return root


def members_of(root: Node) -> dict[str, Node]:
    """Return what a root's consolidated metadata tell of arrays and groups, by their path."""
    found: dict[str, Node] = (root.get("consolidated_metadata") or {}).get("metadata", {})
    return found


def shown_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Return the arrays of a store and their shapes as readers see them; none if there is no store."""
    members = members_of(_read_root(path))
    return {name: tuple(item["shape"]) for name, item in members.items() if item["node_type"] == "array"}


def shown_dimension(path: Path, name: str) -> str | None:
    """Return the first dimension of an array of a store; None if there is no such array."""
    dims = members_of(_read_root(path)).get(name, {}).get("dimension_names")
    return str(dims[0]) if dims else None


def shown_attributes(path: Path) -> dict[str, Any]:
    """Return the attributes of a store as readers see them; none if there is no store."""
    attributes: dict[str, Any] = _read_root(path)["attributes"]
    return attributes


def set_attributes(path: Path, **attributes: Any) -> None:
    """Set attributes of a store whose writer is gone, if its root is there; what it had not committed stays unseen."""
    root = _read_root(path)
    root["attributes"] = root["attributes"] | in_json(attributes)
    if (path / METADATA).exists():  # by one made anew, who continues the store couldn't tell that its arrays are lost
        _replace(path, _json(root))


def zarr_files(name: str) -> tuple[str, ...]:
    """Return what `claim` needs to know of a store of this name: patterns of all that it consists of."""
    metadata = ("zarr.json", "zarr.new", "**/zarr.json", "**/zarr.new", "**/zarr.*.partial")
    inside = (*metadata, "**/c", "**/c/**", "**/c.[0-9]*", "**/.c.[0-9]*.part")
    folder, slash, own = name.rpartition("/")
    return (*(f"{name}/{pattern}" for pattern in inside), f"{folder}{slash}.{own}.*/**")
