"""Between what nodes tell and the stream's view: steps as programs put them become named fields with their time."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from bbflow.attributes import meant
from bbflow.config import TimeConfig
from bbflow.records import Block, Step
from bbflow.schemas import LandedStep, Schema
from bbflow.schemas.finding import named, recognised
from bbflow.view.stream import News, StreamView
from bbflow.view.telling import TimeTelling
from bbflow.wire import Attribute

ReadOn = Callable[[str, int, Block], Any]
"""Reads an array block: the node's name, the number of its step, the block."""


@dataclass(frozen=True, slots=True)
class StreamConfig:
    """What the configuration says of how a stream is to be read."""

    time: TimeConfig
    """What tells the steps' time."""
    schema: str | None = None
    """By which conventions it is written; None: by those that recognise it."""
    is_dated: bool = False
    """Whether dates are needed."""


class Adapting:
    """Turns what nodes say of the steps that have landed into news of the stream's own steps.

    Nothing is passed on before the first step is whole on all nodes: by that a schema is recognised.

    Parameters
    ----------
    nodes
        Their names.
    done
        For each node, the step up to which an earlier analysis has folded and drained it.
    config
        What is said of the stream.
    read
        Reads blocks.
    whole
        Whether all nodes of the stream are among them.
    """

    def __init__(
        self,
        nodes: Sequence[str],
        done: Mapping[str, int],
        config: StreamConfig,
        read: ReadOn,
        *,
        whole: bool = True,
    ) -> None:
        self._config, self._read = config, read
        self._landed: StreamView | None = StreamView(nodes, done, whole=whole)
        self._first = max(done.values(), default=-1)
        self._held: list[tuple[str, News]] = []
        self._schema: Schema | None = None
        self._known: dict[str, dict[str, Any]] = {node: {} for node in nodes}
        self._telling = {
            node: TimeTelling(config.time, partial(read, node), is_dated=config.is_dated) for node in nodes
        }

    def take(self, node: str, news: News) -> Iterator[tuple[str, News]]:
        """Take news of a node in; gives what the stream's view is to take in, as far as that is known."""
        if self._landed is None:
            yield node, self._adapted(node, news)
            return
        self._landed.update(node, news)
        self._held.append((node, news))
        ready = self._landed.steps_after(self._first, 1)
        if not ready and not self._landed.ended:
            yield node, _without_steps(news)
            return
        self._schema = self._find(ready)
        held, self._held, self._landed = self._held, [], None
        for name, own in held:
            yield name, self._adapted(name, own)

    def _find(self, ready: Sequence[int]) -> Schema | None:
        """Find the schema by which the stream is written."""
        assert self._landed is not None
        if self._config.schema is not None:
            return named(self._config.schema)
        names = {block.name for number in ready for _, block in self._landed.blocks(number)}
        return recognised(names, self._landed.attributes)

    def _adapted(self, node: str, news: News) -> News:
        schema = self._schema
        if schema is not None:
            known = self._known[node]
            known.update(news.base if not known else {})
            steps = tuple(self._step(schema, node, step) for step in news.steps)
            base, attributes = _renamed(schema, news.base), _renamed(schema, news.attributes)
            news = replace(news, steps=steps, base=base, attributes=attributes)
        return self._telling[node].told(news)

    def _step(self, schema: Schema, node: str, step: Step) -> Step:
        known = self._known[node]
        known.update((item.name, meant(item)) for item in step.attributes)
        (parts,) = schema.steps(LandedStep({node: step}, self._read, known, self._config.time.variable))
        told = _renamed(schema, {item.name: meant(item) for item in step.attributes})
        return replace(parts[node], attributes=tuple(Attribute(name, "", value) for name, value in told.items()))


def _renamed(schema: Schema, attributes: Mapping[str, Any]) -> dict[str, Any]:
    return dict(item for name, value in attributes.items() for item in schema.attributes(name, value))


def _without_steps(news: News) -> News:
    """Give how the stream stands on a node, as if no step had landed yet."""
    return replace(news, steps=(), last=-1, base={}, attributes={})
