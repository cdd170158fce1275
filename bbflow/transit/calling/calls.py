"""What a worker does for a call of a user's function: it makes the Dataset, and hands it to the function's process."""

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bbflow.errors import ConfigError, OperatorError
from bbflow.functions import Said, UserFunction, said_by
from bbflow.operators.frozen import Frozen, frozen
from bbflow.operators.own import isolation
from bbflow.operators.windows.calendars import Clock
from bbflow.stream.cf import PACKING, STEP, StreamAttributes
from bbflow.stream.records import Step
from bbflow.view.judging import WholeFields, singles_in
from bbflow.view.whole_fields import layouts_of, places_in
from bbflow.zarr_store.growing import GrowingZarr
from bbflow.zarr_store.stored_names import stored_name

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True, slots=True)
class StepCall(Frozen):
    """A function that is called with a step."""

    function: UserFunction
    """Which function."""
    contact: Path
    """Where the nodes are."""
    stream: str
    """The stream."""
    at: int
    """The step's number."""
    time: float | None
    """Its time, on the clock."""
    parts: Mapping[str, Step]
    """What lies of it on the nodes."""
    attributes: StreamAttributes
    """Of the stream."""
    clock: Clock
    """The stream's calendar."""
    results: Path
    """``results.zarr``, which has the coordinates of all fields."""

    def __post_init__(self) -> None:
        own = self.attributes  # of a layer that knows nothing of tasks
        variables = None if own.variables is None else frozenset(own.variables)
        maps = {name: frozen(getattr(own, name)) for name in ("values", "sizes", "maps")}
        object.__setattr__(self, "attributes", replace(own, variables=variables, **maps))
        Frozen.__post_init__(self)

    def dataset(self) -> "xr.Dataset":
        """Return the fields with their coordinates, decoded as `xarray.open_dataset` does."""
        import xarray as xr  # late: the fold needs none of it

        from bbflow.transit.output.decoding import decoded

        fields, places = WholeFields(self.contact, self.stream, self.attributes), places_in(layouts_of(self.parts))
        singles, store = singles_in(self.parts), GrowingZarr(self.results)
        found: dict[str, Any] = {STEP: ((), self.at, {"long_name": "step of the simulation"})}
        if self.time is not None and not self.clock.by_steps:
            found["time"] = ((), self.time, self.clock.attributes | self.clock.meaning)
        for name in self.function.of:
            own = {key: value for key, value in self.attributes.of(name).items() if key not in PACKING}
            if name in places:
                values = fields.read(name, self.parts, places[name])
                dims = tuple(map(stored_name, self.attributes.dimensions(name, values.shape)))
                found[name] = (dims, values, own)
                auxiliary = str(own.get("coordinates", "")).split()
                for other in (*dims, *map(stored_name, auxiliary)):
                    if other not in found and other in store:
                        found[other] = _coordinate(store, other)
            elif name in singles:
                found[name] = ((), singles[name], own)
            else:
                raise OperatorError(f"the step has no variable {name!r} that is a field or a number")
        dataset = decoded(xr.Dataset(found, attrs=self.attributes.of_stream))
        return dataset.set_coords([name for name in dataset.variables if name not in self.function.of])


def _coordinate(store: GrowingZarr, name: str) -> tuple[Sequence[str], Any, Mapping[str, Any]]:
    node = store.metadata(name)
    own = {key: value for key, value in node["attributes"].items() if key not in ("bounds", *PACKING)}
    return node["dimension_names"], store.read(name), own


@dataclass(frozen=True, slots=True)
class SpanCall(Frozen):
    """A function that is called with what a window's span has come to."""

    function: UserFunction
    """Which function."""
    at: int
    """Where on the window's axis the span lies."""
    results: Path
    """``results.zarr``, which shows it."""

    def dataset(self) -> "xr.Dataset":
        """Return the results with their coordinates, decoded."""
        from bbflow.transit.output.decoding import open_results

        with open_results(self.results) as published:
            own = published[list(self.function.results)].isel({f"time_{self.function.window}": self.at})
            # Dask would make tasks of it for all workers, and to unpickle them imports xarray beside their own tasks.
            loaded: xr.Dataset = own.load(scheduler="synchronous")
        return loaded


@dataclass(frozen=True, slots=True)
class CallReceipt:
    """What came of a call."""

    said: Said | None
    """The answer; None if it failed."""
    error: str = ""
    """Why it failed."""


def call_function(call: StepCall | SpanCall) -> CallReceipt:
    """Call a function; a task. What fails in it is its own error, and what kills its process kills nothing else.

    Raises
    ------
    NodeError
        If a node is gone that has a part of the step.
    """
    function = call.function
    try:
        arguments = (function.origin, call.dataset(), dict(function.arguments))
        said: Said = isolation.call(function.origin, pickle.dumps(said_by), "", *arguments)
    except (OperatorError, ConfigError) as error:
        return CallReceipt(None, str(error))
    return CallReceipt(said)
