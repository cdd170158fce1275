"""What holds for every schema: its tests subclass `SchemaTests`, also those of other packages."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from bbflow.schemas.schema import Array, LandedStep, Schema
from bbflow.stream.records import Block, Parts


class SchemaTests(ABC):
    """Tests of one schema; pytest runs them for a subclass whose name begins with ``Test``."""

    @abstractmethod
    def make(self) -> Schema:
        """Make the schema, for one stream."""

    @abstractmethod
    def landed(self) -> Sequence[Parts]:
        """Return steps as a program that writes by the schema lands them, the first of a stream first."""

    @abstractmethod
    def read(self, node: str, number: int, block: Block) -> Array:
        """Read a block of these steps."""

    def attributes(self) -> Mapping[str, Any]:
        """Return the attributes that the program defines."""
        return {}

    def _adapted(self) -> list[tuple[Parts, Parts]]:
        """Return each step of the stream with what has landed of it."""
        schema, found = self.make(), []
        for parts in self.landed():
            each = [parts] if schema.needs_all else [{node: step} for node, step in parts.items()]
            for own in each:
                landed = LandedStep(own, self.read, self.attributes())
                found += [(own, step) for step in schema.steps(landed)]
        return found

    def test_it_recognises_its_streams_and_no_others(self) -> None:
        """A stream of its program is known by the first step's variables and the attributes; an empty one isn't."""
        names = {form.name for step in self.landed()[0].values() for form in step.layout.forms}
        assert self.make().recognises(names, self.attributes())
        for others in ({"tas", "time"}, set[str]()):
            assert not self.make().recognises(others, {"time/units": "days since 2000-01-01"})

    def test_it_recognises_its_streams_when_their_steps_are_gone(self) -> None:
        """Attributes are left then, if there are any, for an analysis that is started again to continue as before."""
        assert not self.attributes() or self.make().recognises(set(), self.attributes())

    def test_blocks_stay_where_they_are(self) -> None:
        """Each block of a step lies in one that has landed, with as many bytes as its type and count need."""
        for landed, step in self._adapted():
            for node, part in step.items():
                there = [(block.file, block.offset, block.offset + block.bytes) for block in landed[node].blocks]
                for block in filter(lambda block: block.bytes, part.blocks):
                    begin, end = block.offset, block.offset + block.reach
                    assert any(file == block.file and at <= begin <= end <= last for file, at, last in there)
                    assert block.bytes == prod(block.count) * block.dtype.itemsize

    def test_steps_that_lie_alike_have_one_layout(self) -> None:
        """What comes of steps with one layout has one layout too, so that the fold plans it once."""
        known: dict[tuple[str, int], set[int]] = {}
        for landed, step in self._adapted():
            for node, part in step.items():
                known.setdefault((node, landed[node].layout.number), set()).add(part.layout.number)
        assert sum(map(len, known.values())) <= 2 * len(known)

    def test_attributes_keep_their_values(self) -> None:
        """An attribute has one name afterwards, which no other one has."""
        schema = self.make()
        names = [own for name, value in self.attributes().items() for own, _ in schema.attributes(name, value)]
        assert len(names) == len(set(names))
