"""Batches: steps that are folded together."""

from dataclasses import dataclass, field
from itertools import groupby

from bbflow.transit.folding.patterns import Parts, Pattern, Places
from bbflow.transit.folding.slots import Keys


@dataclass(frozen=True, slots=True)
class Stretch:
    """Steps that lie alike and follow each other."""

    numbers: tuple[int, ...]
    """Their numbers, counted through a chain of jobs."""
    times: tuple[float, ...]
    """Their times."""
    parts: tuple[Parts, ...]
    """For each step what there is of it on each node."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Steps that are folded together: all in one span of every window."""

    steps: tuple[int, ...]
    """Their numbers; none if all that is there is late."""
    times: tuple[float, ...]
    """Their times."""
    keys: Keys
    """Window name to the span that they are in."""
    through: int
    """Every step up to this one is folded or left out with this batch."""
    late: int = 0
    """Steps that are left out."""
    offset: int = 0
    """Steps of the runs before, in a chain of jobs."""
    laid: tuple[tuple[Pattern, Parts], ...] = ()
    """For each step how it lies, and what there is of it on each node."""
    places: Places = field(default_factory=dict)
    """Where the blocks lie."""
    torn: tuple[int, ...] = ()
    """Steps that are left out since a node lost their time, or a part of them."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """The steps' numbers as operators see them: counted through a chain of jobs."""
        return tuple(number + self.offset for number in self.steps)

    def fits(self, keys: Keys, places: Places) -> bool:
        """Whether a step can be folded together with those that are there."""
        stays = all(self.places.get(key, own) == own for key, own in places.items())
        return not self.steps or (self.keys == keys and stays)

    def with_step(self, number: int, time: float, keys: Keys, offset: int, pattern: Pattern, parts: Parts) -> "Batch":
        """Give the batch with one step more."""
        steps, times, laid = (*self.steps, number), (*self.times, time), (*self.laid, (pattern, parts))
        places = {**self.places, **pattern.places}
        return Batch(steps, times, keys, number, self.late, offset, laid, places, self.torn)

    @property
    def stretches(self) -> "list[tuple[Pattern, Stretch]]":
        """Its steps in their order, those that lie alike and follow each other together."""
        steps = zip(self.laid, self.numbers, self.times, strict=True)
        found = []
        for pattern, own in groupby(steps, key=lambda step: step[0][0]):
            laid, numbers, times = zip(*own, strict=True)
            found.append((pattern, Stretch(numbers, times, tuple(parts for _, parts in laid))))
        return found

    @property
    def patterns(self) -> list[Pattern]:
        """How its steps lie, each once."""
        return list(dict.fromkeys(pattern for pattern, _ in self.laid))
