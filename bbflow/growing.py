"""A Zarr store that grows while others read it, without torn values.

Readers that open the store through its consolidated metadata (as xarray does) see the shapes of the last
`commit`. New data are written beyond those shapes first; one atomic rename of the root's metadata then shows
all of them at once.
"""

import json
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import zarr
from zarr.codecs import ZstdCodec

Array = np.ndarray[Any, Any]
METADATA = "zarr.json"


class GrowingZarr:
    """Writes one store; it is the only writer of the store's metadata.

    Parameters
    ----------
    path
        Directory of the store. A new one appears whole with its first `commit`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._is_new = not path.exists()
        self._root = path.with_name(f".{path.name}.{uuid.uuid4().hex}") if self._is_new else path
        self._open()
        self._attributes: dict[str, Any] = dict(self._group.attrs)
        self._metadata: dict[str, Any] = {}
        self._changed = {name for name, _ in self._group.members(max_depth=None)}

    def _open(self) -> None:
        self._group = zarr.open_group(self._root, mode="a", zarr_format=3, use_consolidated=False)
        self._arrays: dict[str, Any] = {}

    @property
    def is_new(self) -> bool:
        """Whether nothing was committed yet."""
        return self._is_new

    def __contains__(self, name: object) -> bool:
        return name in self._metadata or name in self._changed

    def create(
        self,
        name: str,
        dims: Sequence[str],
        shape: Sequence[int],
        dtype: Any,
        attributes: Mapping[str, Any],
        chunks: Sequence[int] | None = None,
        compression: str = "none",
    ) -> None:
        """Make an array; floating-point values that are never written read as NaN.

        Parameters
        ----------
        name
            Its path in the store.
        dims, shape, dtype
            Dimension names, lengths now, and type.
        attributes
            CF attributes.
        chunks
            By default one chunk for each index of the first dimension.
        compression
            none or zstd.
        """
        self._changed |= {name, *(str(parent) for parent in PurePosixPath(name).parents if str(parent) != ".")}
        self._group.create_array(
            name,
            shape=tuple(shape),
            chunks=tuple(max(size, 1) for size in (chunks or (1, *shape[1:]))),
            dtype=dtype,
            dimension_names=tuple(dims),
            attributes=dict(attributes),
            fill_value=np.nan if np.dtype(dtype).kind == "f" else 0,
            compressors=ZstdCodec(level=1) if compression == "zstd" else None,
        )

    def describe(self, name: str, **attributes: Any) -> None:
        """Set attributes of a group within the store."""
        self._array(name).update_attributes(attributes)
        self._changed.add(name)

    def write(self, name: str, start: int, data: Array) -> None:
        """Write along the first dimension from index `start` on, and lengthen the array if need be."""
        end = start + len(data)
        self.resize(name, end)
        if len(data):
            self._array(name)[start:end] = data

    def resize(self, name: str, end: int) -> None:
        """Lengthen an array's first dimension to at least `end`."""
        array = self._array(name)
        if array.shape[0] < end:
            array.resize((end, *array.shape[1:]))
            self._changed.add(name)

    def read(self, name: str) -> Array:
        """Give an array's values as they are now, committed or not."""
        return np.asarray(self._array(name)[...])

    def attribute(self, name: str, default: Any = None) -> Any:
        """Give an attribute of the store."""
        return self._attributes.get(name, default)

    def names(self, dimension: str) -> list[str]:
        """Names of the arrays in the root whose first dimension is `dimension`."""
        dims = {name: getattr(array.metadata, "dimension_names", None) for name, array in self._group.arrays()}
        return sorted(name for name, named in dims.items() if named and named[0] == dimension)

    def commit(self, **attributes: Any) -> None:
        """Show readers everything that was written, and set attributes of the store.

        zarr's own calls would set attributes and consolidate in two writes, and a reader between them would
        find the store without consolidated metadata. This is their format in one write.
        """
        path = self._root / METADATA
        self._attributes |= attributes
        for name in self._changed:
            self._metadata[name] = json.loads((self._root / name / METADATA).read_text())
        self._changed = set()
        root = json.loads(path.read_text()) | {"attributes": self._attributes}
        root["consolidated_metadata"] = {
            "kind": "inline",
            "must_understand": False,
            "metadata": dict(sorted(self._metadata.items())),
        }
        temporary = path.with_suffix(".new")
        temporary.write_text(json.dumps(root))
        temporary.rename(path)
        if self._is_new:
            self._root.rename(self.path)
            self._root, self._is_new = self.path, False
            self._open()

    def _array(self, name: str) -> Any:
        if name not in self._arrays:
            self._arrays[name] = self._group[name]
        return self._arrays[name]


def shown_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Give the arrays of a store and their shapes as readers see them; none if there is no store."""
    try:
        root = json.loads((path / METADATA).read_text())
    except FileNotFoundError:
        return {}
    members = (root.get("consolidated_metadata") or {}).get("metadata", {})
    return {name: tuple(item["shape"]) for name, item in members.items() if item["node_type"] == "array"}


def shown_attributes(path: Path) -> dict[str, Any]:
    """Give the attributes of a store as readers see them; none if there is no store."""
    try:
        attributes: dict[str, Any] = json.loads((path / METADATA).read_text())["attributes"]
    except FileNotFoundError:
        return {}
    return attributes


def set_attributes(path: Path, **attributes: Any) -> None:
    """Set attributes of a store whose writer is gone; what it had not committed stays unseen."""
    metadata = path / METADATA
    root = json.loads(metadata.read_text())
    root["attributes"] = root["attributes"] | attributes
    temporary = metadata.with_suffix(".new")
    temporary.write_text(json.dumps(root))
    temporary.rename(metadata)


def zarr_files(name: str) -> tuple[str, ...]:
    """Give what `claim` needs to know of a store of this name: patterns of all that it consists of."""
    inside = ("zarr.json", "zarr.new", "**/zarr.json", "**/zarr.*.partial", "**/c", "**/c/**")
    return (*(f"{name}/{pattern}" for pattern in inside), f".{name}.*/**")
