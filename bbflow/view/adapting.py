"""Between what nodes tell and the stream's view: steps as programs put them become named fields with their time."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any
from weakref import finalize

import msgspec
from msgspec import UNSET, UnsetType

from bbflow.configuring.step_time import TimeConfig
from bbflow.errors import DamagedError, StreamError
from bbflow.host.atomic import write_whole
from bbflow.reading.wire_types import Attribute
from bbflow.schemas import LandedStep, Schema
from bbflow.schemas.recognising import named, recognised
from bbflow.store.streams import ENDED
from bbflow.stream.attributes import meant
from bbflow.stream.point_maps import PointMap
from bbflow.stream.records import Block, Parts, Step
from bbflow.view.numbering import Numbering
from bbflow.view.stream import Arrival, News, StreamView
from bbflow.view.times import TimeTelling

ReadOn = Callable[[str, int, Block], Any]
"""Reads an array block: the node's name, ADIOS2's number of its step, the block."""
MEMORY_FILE = "schema"
"""What a schema must know of earlier steps, beside its maps of points."""
DISCARDED_FILE = "discarded"
"""Which of the stream's own steps were discarded, in JSON: nodes tell landed ones, whose frames nobody counts again."""


@dataclass(frozen=True, slots=True)
class StreamConfig:
    """What the configuration says of how a stream is to be read."""

    time: TimeConfig
    """What tells the steps' time."""
    schema: str | None = None
    """By which conventions it is written; None: by those that recognise it."""
    is_dated: bool = False
    """Whether dates are needed."""
    names: frozenset[str] = frozenset()
    """The variables that the configuration names."""
    needs_bounds: bool = False
    """Whether the bounds of steps' times are needed."""


class Adapting:
    """Turns what nodes say of the steps that have landed into news of the stream's own steps.

    Nothing is passed on before the first step is whole on all nodes: by that a schema is recognised.

    Parameters
    ----------
    nodes
        Their names.
    done
        For each node, the landed step up to which an earlier analysis has folded and drained it.
    config
        What is said of the stream.
    read
        Reads blocks.
    numbering
        Learns which of the stream's steps lie in which landed ones.
    whole
        Whether all nodes of the stream are among them.
    folder
        For what must outlive a crash: maps of points, and the memory of a schema; by default it ends with this object.
    """

    def __init__(
        self,
        nodes: Sequence[str],
        done: Mapping[str, int],
        config: StreamConfig,
        read: ReadOn,
        numbering: Numbering,
        *,
        whole: bool = True,
        folder: Path | None = None,
    ) -> None:
        self._config, self._read, self._whole, self._numbering = config, read, whole, numbering
        self._folder = folder
        self._landed: StreamView | None = StreamView(nodes, done, whole=whole)
        self._seen = max(done.values(), default=-1)
        self._held: list[tuple[str, News]] = []
        self._schema: Schema | None = None
        self._is_found = False
        self._known: dict[str, dict[str, Any]] = {node: {} for node in nodes}
        self._telling = {
            node: TimeTelling(
                config.time, partial(read, node), is_dated=config.is_dated, needs_bounds=config.needs_bounds
            )
            for node in nodes
        }
        self._latest: dict[str, News] = {}
        self._discarded: set[int] = set()
        self._firsts: dict[int, int] = {}
        self._memory = b""
        self._before = max(self._seen, 0)
        """Landed step up to which what lies in values holds from the beginning."""
        self.maps: dict[str, PointMap] = {}
        """Variable to where its points lie, of those whose blocks have them in an order of their own; it grows."""

    def take(self, node: str, news: News) -> Iterator[tuple[str, News]]:
        """Take news of a node in; gives what the stream's view is to take in, as far as that is known.

        Raises
        ------
        StreamError
            If a step isn't as its schema has it.
        ConfigError
            If several schemas recognise the stream.
        """
        was_known = self._landed is not None and self._landed.is_known
        if self._landed is not None:
            self._landed.update(node, news)
        if not self._is_found:
            self._held.append((node, news))
            if (was_known and self._is_opening(news)) or not self._is_ready():
                # Whether ranks have opened the stream, or closed it, is so whatever the schema is.
                yield node, replace(news, steps=(), last=-1, base={}, attributes={})
                return
            self._find()
        held, self._held = [*self._held] or [(node, news)], []
        if self._landed is None:
            for name, own in held:
                yield name, self._adapted(name, own)
        else:
            self._latest.update(held)
            yield from self._together()

    def go_without(self) -> None:
        """Count steps without ranks that are missing, as `StreamView.go_without`, from the next news on."""
        if self._landed is not None:
            self._landed.go_without()

    def _is_opening(self, news: News) -> bool:
        """Whether news say only that ranks have opened the stream: with that no step is ready.

        A thousand nodes tell of each rank, and each look at all of them takes a millisecond.
        """
        is_ending = news.status in ENDED or bool(news.arrivals)
        return bool(news.local_writers) and not is_ending and not news.steps and news.last <= self._seen

    def _is_ready(self) -> bool:
        """Whether a step is whole, or none will be."""
        assert self._landed is not None
        # Steps that are settled and gone tell no names any more: attributes must do.
        gone = self._landed.is_known and self._landed.frontier > self._seen
        return bool(self._landed.steps_after(self._seen, 1)) or gone or self._landed.ended

    def _find(self) -> None:
        """Find the schema by which the stream is written."""
        assert self._landed is not None
        ready = self._landed.steps_after(self._seen, 1)
        self._is_found = True
        if self._config.schema is not None:
            self._schema = named(self._config.schema)
        else:
            names = {block.name for number in ready for _, block in self._landed.blocks(number)}
            self._schema = recognised(names, self._landed.attributes)
        if self._schema is not None:
            self._schema.call(self._config.names)
        if self._schema is None or not self._schema.needs_all:
            self._landed = None
            return
        if not self._whole:
            raise StreamError(
                f"the stream is written as {self._schema.name} does, whose fields lie over all ranks: it can't "
                "continue without a BB node"
            )
        if not self._numbering.is_framed:
            self._numbering.begin(self._seen, self._seen)
        if self._folder is None:
            self._folder = Path(mkdtemp(prefix="bbflow-"))
            # Maps that no output keeps go with who has read them.
            finalize(self, rmtree, self._folder, ignore_errors=True)
        file = self._folder / MEMORY_FILE
        if file.exists():
            self._memory = file.read_bytes()
            try:
                self._schema.remember(self._memory)
            except (ValueError, TypeError, AttributeError) as error:  # a schema's own, which may be another package's
                raise DamagedError(f"{file} is damaged: {error}") from None
            self.maps.update(self._schema.maps)
        discarded = self._folder / DISCARDED_FILE
        if discarded.exists():
            before = range(self._numbering.last + 1)  # later ones are told again
            try:
                numbers = msgspec.json.decode(discarded.read_bytes(), type=list[int])
            except msgspec.DecodeError as error:
                raise DamagedError(f"{discarded} is damaged: {error}") from None
            self._discarded.update(number for number in numbers if number in before)

    @property
    def is_plain(self) -> bool:
        """Whether steps are taken as they land, without a schema."""
        return self._is_found and self._schema is None

    @property
    def without_frames(self) -> int:
        """How many steps have landed, if the schema has found no step of the stream in any of them."""
        if self._landed is None or self._schema is None or self._numbering.last >= 0:
            return 0
        return self._landed.frontier + 1

    # Each node by itself

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
        landed = LandedStep({node: step}, self._read, known, self._folder, self._config.time.variable)
        (parts,) = schema.steps(landed)
        return _with_renamed(schema, parts[node])

    # All nodes together

    def _together(self) -> Iterator[tuple[str, News]]:
        """Yield what has become whole on all nodes, as news of each."""
        assert self._landed is not None
        assert self._schema is not None
        landed, schema = self._landed, self._schema
        found: dict[str, list[Step]] = {node: [] for node in self._latest}
        whole, known = set(landed.steps_after(self._seen)), len(self._discarded)
        for number in range(self._seen + 1, landed.frontier + 1):
            frames, last = self._frames(number) if number in whole else None, self._numbering.last
            self._firsts[number] = last + 1
            for parts in frames or ():
                last += 1
                for node, step in parts.items():
                    own = replace(_with_renamed(schema, step, self._firsts), number=last, landed=number)
                    found.setdefault(node, []).append(own)
            if frames is None:  # one that was dropped, or is torn, counts as one
                last += 1
            if number in landed.discarded:
                self._discarded.add(last)
            self._numbering.add(number, last)
            self._seen = number
        if len(self._discarded) > known:  # before anything is done with them
            self._keep(DISCARDED_FILE, msgspec.json.encode(sorted(self._discarded)))
        landed.forget(self._seen)
        for node, news in self._latest.items():
            yield node, self._telling[node].told(self._news(schema, news, found.get(node, ())))

    def _news(self, schema: Schema, news: News, steps: Sequence[Step]) -> News:
        more = any(own.more for own in self._latest.values())
        return replace(
            news,
            status="open" if more and news.status in ENDED else news.status,
            steps=tuple(steps),
            last=self._numbering.last,
            more=False,
            discarded=frozenset(self._discarded),
            arrivals=tuple(
                Arrival(item.rank, item.origin, self._firsts.get(item.first, self._numbering.last + 1))
                for item in news.arrivals
            ),
            base=_renamed(schema, {**news.base, **self._found(self._before)}),
            attributes=_renamed(schema, {**news.attributes, **self._found(self._seen)}),
            file_since=None if news.file_since is None else self._firsts.get(news.file_since),
        )

    def _frames(self, number: int) -> Sequence[Parts]:
        """Return the steps that lie in one that has landed; what later ones need of it is kept first."""
        assert self._landed is not None
        assert self._schema is not None
        steps = ((node, self._landed.step(node, number)) for node in self._landed.taking_part)
        parts = {node: step for node, step in steps if step is not None}
        landed = LandedStep(parts, self._read, self._landed.attributes, self._folder, self._config.time.variable)
        frames = self._schema.steps(landed)
        told = tuple(Attribute(name, "", value) for name, value in self._found(number).items())
        if frames and told:
            # By each node: it is told in place of what the program says itself, on whichever of them its rank 0 is.
            all_told = {node: replace(own, attributes=(*own.attributes, *told)) for node, own in frames[0].items()}
            frames = [all_told, *frames[1:]]
        self.maps.update(self._schema.maps)
        memory = self._schema.memory()
        if memory != self._memory:
            self._keep(MEMORY_FILE, memory)
            self._memory = memory
        return frames

    def _keep(self, name: str, content: bytes) -> None:
        assert self._folder is not None
        self._folder.mkdir(parents=True, exist_ok=True)
        write_whole(self._folder / name, content)

    def _found(self, through: int) -> Mapping[str, Any]:
        """Return the attributes that lie in the values of steps; those of the first one hold from the beginning."""
        assert self._landed is not None
        assert self._schema is not None
        return self._schema.found(through, self._landed.attributes)


def _renamed(schema: Schema, attributes: Mapping[str, Any]) -> dict[str, Any]:
    return dict(item for name, value in attributes.items() for item in schema.attributes(name, value))


def _with_renamed(schema: Schema, step: Step, firsts: Mapping[int, int] | None = None) -> Step:
    """Return a step whose attributes have their names by the CF conventions.

    Parameters
    ----------
    schema
        It knows them.
    step
        As it has landed.
    firsts
        For steps that have landed, the first that lies in each; None if each is one.
    """
    told: dict[tuple[str, int | UnsetType], Any] = {}
    for item in step.attributes:
        # What isn't known was looked at by an analysis before this one.
        since = item.since if firsts is None or item.since is UNSET else firsts.get(item.since, 0)
        told.update(((name, since), value) for name, value in schema.attributes(item.name, meant(item)))
    return replace(step, attributes=tuple(Attribute(name, "", value, at) for (name, at), value in told.items()))
