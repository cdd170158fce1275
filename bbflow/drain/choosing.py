"""Which raw steps are kept, where a condition on each decides."""

from collections.abc import Mapping
from math import nan, prod
from pathlib import Path

import numpy as np

from bbflow.cf import StreamAttributes
from bbflow.config import RawConfig
from bbflow.errors import ConfigError
from bbflow.operators.conditions import EXTREMES, FieldStatistic
from bbflow.operators.decoding import is_bare, without_missing
from bbflow.operators.family import Array
from bbflow.records import DTYPES, Step
from bbflow.view.blocks import BlockReader
from bbflow.view.fields import FieldPlace, layouts_of, places_in
from bbflow.view.layout import number_of

Parts = Mapping[str, Step]


class Choosing:
    """Decides step by step, with some steps before and after those for which the condition holds.

    Parameters
    ----------
    raw
        What is kept; it has a condition.
    attributes
        Of the stream.
    contact, stream
        Where the steps are.
    last
        The last step before those that come for which the condition held; None if it held for none.
    """

    def __init__(
        self, raw: RawConfig, attributes: StreamAttributes, contact: Path, stream: str, last: int | None
    ) -> None:
        assert raw.when is not None
        self._raw, self._attributes, self._when = raw, attributes, raw.when
        self._reader = BlockReader(contact, stream)
        self._hits: list[int] = [] if last is None else [last]
        self._seen = -1

    def look_at(self, number: int, parts: Parts) -> None:
        """Decide whether the condition holds for a step; they come in their order, and may come again.

        Raises
        ------
        ConfigError
            If a variable isn't a single value where one is needed.
        """
        if number > self._seen:
            self._seen = number
            if self._holds(parts):
                self._hits.append(number)

    def keeps(self, number: int) -> bool:
        """Whether a step is kept; those up to `before` steps later must have been looked at."""
        return any(hit - self._raw.before <= number <= hit + self._raw.after for hit in reversed(self._hits))

    def last_hit(self, through: int) -> int | None:
        """Return the last step up to one for which the condition held; earlier ones matter no more."""
        before = [hit for hit in self._hits if hit <= through]
        self._hits = before[-1:] + [hit for hit in self._hits if hit > through]
        return before[-1] if before else None

    def _holds(self, parts: Parts) -> bool:
        places = places_in(layouts_of(parts))
        singles = _singles(parts)
        there = places.keys() | singles.keys()
        if not there >= set(self._when.variables):
            return False
        numbers = {name: self._statistic(item, parts, places) for name, item in self._when.statistics.items()}
        for name in self._when.singles:
            if name not in singles:
                raise ConfigError(f"raw: when: {name} is a field: write max({name}), or min, mean or sum")
            numbers[name] = float(without_missing(np.asarray(singles[name]), self._attributes.encoding(name)))
        return self._when.holds(numbers)

    def _statistic(self, item: FieldStatistic, parts: Parts, places: Mapping[str, FieldPlace]) -> float:
        for name in item.of.variables:
            if name not in places:
                raise ConfigError(f"raw: when: {name} is a single value: write {name} alone, not {item.how}({name})")
        if item.how in EXTREMES and item.of.is_plain:
            (name,) = item.of.variables
            if is_bare(self._attributes.encoding(name), places[name].like.dtype) and self._has_no_fill(name):
                return _extreme(item.how, parts, places[name])
        return item.evaluate(lambda name: self._field(name, parts, places[name]))

    def _has_no_fill(self, name: str) -> bool:
        """Whether blocks' minima and maxima are those of valid values."""
        return not self._attributes.encoding(name).missing

    def _field(self, name: str, parts: Parts, place: FieldPlace) -> Array:
        landed = next(parts[node].landed_in for node, _ in place.pieces)
        blocks = [(node, parts[node].blocks[at]) for node, at in place.pieces]
        blocks = [(node, block) for node, block in blocks if block.bytes]
        points, dtype = sum(prod(block.count) for _, block in blocks), place.like.dtype
        if dtype.kind not in "iuf" or (dtype.kind != "f" and points < prod(place.like.shape)):
            raise ConfigError(f"raw: when: {name} has holes, or is of {dtype}: take another variable")
        whole = self._reader.assemble(landed, blocks, nan if place.like.dtype.kind == "f" else None)
        return without_missing(np.asarray(whole), self._attributes.encoding(name))


def _extreme(how: str, parts: Parts, place: FieldPlace) -> float:
    """Return a field's minimum or maximum as its ranks have found it."""
    blocks = [parts[node].blocks[at] for node, at in place.pieces]
    found = [block.min if how == "min" else block.max for block in blocks]
    known = [float(value) for value in found if value is not None]
    return (min(known) if how == "min" else max(known)) if known else nan


def _is_number(kind: str) -> bool:
    return kind in DTYPES and DTYPES[kind].kind in "iuf"


def _singles(parts: Parts) -> dict[str, float]:
    return {
        part.layout.forms[at].name: number_of(value)
        for part in parts.values()
        for at, value in zip(part.layout.singles, part.values, strict=True)
        if part.layout.forms[at].kind == "GlobalValue" and _is_number(part.layout.forms[at].type)
    }
