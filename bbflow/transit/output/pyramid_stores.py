"""Pyramids beside ``results.zarr``: a store for each window and grid, with a group for each level."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from bbflow.operators.operator import Operator
from bbflow.operators.space.pyramids import Pyramid, PyramidLevel, multiscales
from bbflow.operators.windows.window import Window
from bbflow.stream.cf import PACKING
from bbflow.transit.output.claiming import PYRAMIDS_DIRECTORY
from bbflow.transit.output.fields import ResultField
from bbflow.transit.output.lost_files import lost_files, names_of
from bbflow.transit.output.results import Array, Described, Results, result_name
from bbflow.zarr_store.growing import GrowingZarr
from bbflow.zarr_store.stored_names import stored_name

NAMING = ("coordinates", "cell_measures", "grid_mapping", "bounds")
"""Attributes that name variables of the other store."""


class Pyramids:
    """Writes the levels of results that have been shown; they may be made of these again at any time.

    Parameters
    ----------
    output
        The run's output.
    """

    def __init__(self, output: Path) -> None:
        self._directory = output / PYRAMIDS_DIRECTORY
        self._stores: dict[str, GrowingZarr] = {}
        self._before: dict[str, Mapping[str, int]] = {}
        """Store to its arrays or axes to how many spans of them were there before the run."""
        self._gone: list[str] = []
        """What was gone of a store when an analysis took over."""

    def follow(self, results: Results, window: Window, fields: Iterable[Described], at: int) -> None:
        """Write what a span has come to, and what an analysis that was killed had left out before it.

        Parameters
        ----------
        results
            The store, in which the span is shown.
        window
            Whose span.
        fields
            With their statistics; those that have levels are written.
        at
            Where on the window's axis it lies; it may be there already.
        """
        touched: dict[str, list[Pyramid]] = {}
        for field, operators in fields:
            if field.pyramid is not None:
                name = stored_name(f"{window.name}_{field.pyramid.label}")
                touched.setdefault(name, []).append(field.pyramid)
                levels = PyramidLevels(self._store(name, results, window), results, window, field, field.pyramid)
                for operator in operators:
                    levels.write(operator, at)
        for name, pyramids in touched.items():
            self._stores[name].commit(**multiscales(pyramids))

    def lost(self) -> list[str]:
        """Return what is gone or cut off of what was written during the run, as paths in the output."""
        found = list(self._gone)
        for name, store in self._stores.items():
            own, lost = self._label(name), lost_files(store, store.chunks, self._before[name], ())
            found += names_of(self._directory.parent, [(f"{own}/{array}", path) for array, path in lost])
            found += [f"{own}/{file}" for file in store.lost]
        return found

    def _label(self, name: str) -> str:
        return f"{self._directory.name}/{name}.zarr"

    def _store(self, name: str, results: Results, window: Window) -> GrowingZarr:
        self._directory.mkdir(exist_ok=True)
        if name not in self._stores:
            path = self._directory / f"{name}.zarr"
            store = self._stores[name] = GrowingZarr(path, renews=results.is_continued)
            self._before[name] = dict(store.lengths)
            if results.is_continued:  # a store that is gone is made again of the results
                self._gone += [f"{self._label(name)}/{array}" for array in store.restore()]
                self._before[name] = {"time": results.before.get(f"time_{window.name}", 0)}
        return self._stores[name]


class PyramidLevels:
    """The levels of one field in one store.

    Parameters
    ----------
    store
        Where they go.
    results
        Where they come from.
    window
        Whose results.
    field
        Of which field.
    pyramid
        Its levels.
    """

    def __init__(
        self, store: GrowingZarr, results: Results, window: Window, field: ResultField, pyramid: Pyramid
    ) -> None:
        self._store, self._results, self._window = store, results, window
        self._field, self._pyramid = field, pyramid

    def write(self, operator: Operator, at: int) -> None:
        """Write a statistic of a span, and of those before it that aren't there."""
        source = result_name(self._field.name, self._window.name, operator.name)
        own = stored_name(f"{self._field.name}_{operator.name}")
        paths = {name: f"{name}/{own}" for name in self._pyramid.wanted}
        done = min(self._store.metadata(path)["shape"][0] if path in self._store else 0 for path in paths.values())
        for index in sorted({at, *range(done, at)}):
            values = self._results.result(source, index)
            for level, made in self._made(operator, values):
                path = paths[level.name]
                if path not in self._store:
                    self._create(path, level, source, operator)
                self._store.write(path, index, made[np.newaxis])
                self._write_time(level, index)

    def _made(self, operator: Operator, values: Array) -> list[tuple[PyramidLevel, Array]]:
        """Return a result's levels; what has an axis of its own, such as a histogram, has it first."""
        lead = operator.lead
        parts = [list(self._pyramid.made(part)) for part in values.reshape(-1, *values.shape[len(lead) :])]
        stacked = ((level, np.stack([part[at][1] for part in parts])) for at, (level, _) in enumerate(parts[0]))
        return [(level, made.reshape(*lead, *made.shape[1:])) for level, made in stacked]

    def _create(self, path: str, level: PyramidLevel, source: str, operator: Operator) -> None:
        """Make the array of one level, with the attributes of the result."""
        dims, shape, attributes = self._results.described(source)
        first = 1 + len(operator.axes) + self._pyramid.at
        last = first + len(level.shape)
        kept = {key: value for key, value in attributes.items() if key not in (*PACKING, *NAMING)}
        kept |= level.described.own
        if level is not self._pyramid.levels[0]:
            kept["cell_methods"] = f"{kept.get('cell_methods', '')} area: mean".strip()
        others = [*dims[1:first], *dims[last:]]
        own = ("time", *dims[1:first], *level.described.dims, *dims[last:])
        self._store.create(path, own, (0, *shape[1:first], *level.shape, *shape[last:]), "f8", kept)
        self._write_coordinates(level, others)

    def _write_coordinates(self, level: PyramidLevel, others: Sequence[str]) -> None:
        """Write those of the level's grid, of the result's other dimensions, and the axis of time."""
        told = level.described
        for name, values in told.coordinates.items():
            bounds = {"bounds": f"{name}_bnds"} if f"{name}_bnds" in told.coordinates else {}
            own = {**told.attributes.get(name, {}), **bounds}
            self._coordinate(level, name, told.coordinate_dims[name], values, own)
        for name in others:
            if self._results.has(name):
                dims, _, attributes = self._results.described(name)
                kept = {key: value for key, value in attributes.items() if key not in NAMING}
                self._coordinate(level, name, dims, self._results.values(name), kept)
        for name, other in self._times(level):
            if name not in self._store:
                _, shape, attributes = self._results.described(other)
                own = {key: "time_bnds" if key in ("bounds", "climatology") else it for key, it in attributes.items()}
                self._store.create(name, ("time", "bnds")[: len(shape)], (0, *shape[1:]), "f8", own, (512, *shape[1:]))

    def _coordinate(
        self, level: PyramidLevel, name: str, dims: Sequence[str], values: Array, attributes: dict[str, object]
    ) -> None:
        path = f"{level.name}/{name}"
        if path not in self._store:
            self._store.create(path, dims, values.shape, values.dtype, attributes, chunks=values.shape)
            self._store.write(path, 0, values)

    def _write_time(self, level: PyramidLevel, index: int) -> None:
        for name, other in self._times(level):
            self._store.write(name, index, self._results.values(other)[index : index + 1])

    def _times(self, level: PyramidLevel) -> list[tuple[str, str]]:
        axis = f"time_{self._window.name}"
        return [(f"{level.name}/time", axis), (f"{level.name}/time_bnds", f"{axis}_bnds")]
