"""A task that finds its files on the burst buffer of the node it runs on, wherever that is."""

import copy
import logging
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parsl.app.errors import RemoteExceptionWrapper
from parsl.data_provider.files import File

from bbflow.errors import CapacityError, ConfigError, SourceError
from bbflow_parsl.node import Copy, NodeSettings, Route, WorkerNode, node_of
from bbflow_parsl.settings import BurstBufferSettings, absolute

logger = logging.getLogger(__name__)
STREAMS, LISTS = ("stdout", "stderr"), {"inputs", "outputs"}
Places = Mapping[str, Path]
"""URL of a File to where it is on the node."""


@dataclass(frozen=True)
class NodeTask:
    """Wraps what a worker runs: its inputs come to the node first, its outputs go from there afterwards."""

    func: Callable[..., Any]
    """What it runs."""
    settings: NodeSettings
    """About the nodes."""
    inputs: tuple[Route, ...]
    """Files that it reads."""
    outputs: tuple[Route, ...]
    """Files that it writes."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run on a worker."""
        node = node_of(self.settings)
        outputs = {f"out-{uuid.uuid4().hex}": route for route in self.outputs}
        with self._staged(node, outputs) as places:
            with node.computing():
                positional, named = relocated(args, kwargs, places)
                result = self.func(*positional, **named)
            failed = isinstance(result, RemoteExceptionWrapper)
            for name, route in outputs.items():
                if route.url in places and (route.is_stream or not failed):
                    node.deliver(name, route)
        return result

    @contextmanager
    def _staged(self, node: WorkerNode, outputs: Mapping[str, Route]) -> Iterator[Places]:
        """Yield where the task's files are, held for as long as a ``with`` lasts."""
        with ExitStack() as stack:
            copies = node.look(self.inputs)
            try:
                stack.enter_context(node.holding(copies, outputs))
            except CapacityError:
                if not self.settings.is_direct:
                    raise
                yield self._direct()
                return
            paths = _fetched(node, copies)
            inputs = {route.url: paths[route.place] for route in self.inputs if route.place in paths}
            yield inputs | {route.url: node.output_path(name, route) for name, route in outputs.items()}

    def _direct(self) -> Places:
        """Direct a task to its files where they are for all nodes."""
        for route in (*self.inputs, *self.outputs):
            if "://" in route.place:
                raise ConfigError(f"{route.place} has no room on the node, and can't be used directly: give it more")
        for route in self.outputs:
            Path(route.place).parent.mkdir(parents=True, exist_ok=True)
        return {}


def _fetched(node: WorkerNode, copies: Sequence[Copy]) -> dict[str, Path]:
    """Return where each input is on the node; what can't be copied is read where it is, if a task can do so."""
    paths = {}
    for each in copies:
        try:
            paths[each.route.place] = node.fetch(each)
        except SourceError as error:
            if "://" in each.route.place:
                raise
            logger.warning("%s is read directly: %s", each.route.place, error)
    return paths


def relocated(args: tuple[Any, ...], kwargs: Mapping[str, Any], places: Places) -> tuple[list[Any], dict[str, Any]]:
    """Return arguments with Files that lie on the node; what was given stays as it is, as it may be tried again."""
    changed = {key: _on(value, places) for key, value in kwargs.items()}
    for key in LISTS & kwargs.keys():
        changed[key] = [_on(value, places) for value in kwargs[key]]
    return [_on(value, places) for value in args], changed


def _on(value: Any, places: Places) -> Any:
    if not isinstance(value, File) or value.url not in places:
        return value
    found = copy.copy(value)
    found.local_path = str(places[value.url])
    return found


def on_node(
    func: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    node_settings: NodeSettings,
    settings: BurstBufferSettings,
) -> Callable[..., Any]:
    """Wrap a task that has files for its node.

    Parameters
    ----------
    func, args, kwargs
        As the executor gets them: Files whose `local_path` is set lie on a burst buffer that all nodes share.
    node_settings
        About the nodes.
    settings
        Which files go there.
    """
    given = [*args, *kwargs.get("inputs", ()), *(kwargs[key] for key in kwargs if key not in STREAMS)]
    inputs = [_route(file, settings) for file in given if isinstance(file, File) and _is_input(file, settings)]
    written = [(file, False) for file in kwargs.get("outputs", ())] + [(kwargs.get(key), True) for key in STREAMS]
    landing = [(file, is_stream) for file, is_stream in written if isinstance(file, File) and _lands(file, settings)]
    outputs = [_route(file, settings, is_stream) for file, is_stream in landing]
    return NodeTask(func, node_settings, tuple(inputs), tuple(outputs)) if inputs or outputs else func


def _is_input(file: File, settings: BurstBufferSettings) -> bool:
    return settings.stages_in(file.url) or _lands(file, settings)


def _lands(file: File, settings: BurstBufferSettings) -> bool:
    return settings.keeps(file.url) or settings.stages_out(file.url)


def _route(file: File, settings: BurstBufferSettings, is_stream: bool = False) -> Route:
    expected_bytes = settings.expected_bytes(file.url)
    if file.local_path is not None:
        return Route(file.url, file.local_path, True, expected_bytes, is_stream)
    return Route(file.url, absolute(file.url), False, expected_bytes, is_stream)
