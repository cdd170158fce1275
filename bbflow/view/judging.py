"""Whether a condition holds for a step that lies on the nodes, and the whole fields that it asks for."""

from collections.abc import Mapping
from math import nan, prod
from pathlib import Path
from typing import Any

import numpy as np

from bbflow.errors import ConfigError
from bbflow.operators.conditions import EXTREMES, Condition, FieldStatistic
from bbflow.operators.decoding import is_bare, without_missing
from bbflow.operators.steps import Array
from bbflow.stream.cf import StreamAttributes
from bbflow.stream.dtypes import DTYPES
from bbflow.stream.puts import seen
from bbflow.stream.records import BlockForm, Step
from bbflow.view.blocks import BlockReader
from bbflow.view.layout import number_of
from bbflow.view.whole_fields import FieldPlace, layouts_of, places_in

Parts = Mapping[str, Step]


class WholeFields:
    """Reads whole fields of steps as their values are meant.

    Parameters
    ----------
    contact, stream
        Where the steps are.
    attributes
        Of the stream.
    """

    def __init__(self, contact: Path, stream: str, attributes: StreamAttributes) -> None:
        self._reader = BlockReader(contact, stream)
        self._attributes = attributes

    def read(self, name: str, parts: Parts, place: FieldPlace) -> Array:
        """Return a variable of a step, NaN where it is missing; it may be a view of the pool.

        Raises
        ------
        ConfigError
            If it has places without a value, and no type in which they could be told.
        NodeError, StreamError
            As for `BlockReader.read`.
        """
        landed = next(parts[node].landed_in for node, _ in place.pieces)
        blocks = [(node, parts[node].blocks[at]) for node, at in place.pieces]
        blocks = [(node, block) for node, block in blocks if block.bytes]
        dtype = place.like.dtype
        if dtype.kind not in "iuf" or (dtype.kind != "f" and place.points < prod(place.like.shape)):
            raise ConfigError(f"{name} has holes, or is of {dtype}: take another variable")
        whole = self._reader.assemble(landed, blocks, nan if dtype.kind == "f" else None)
        made = without_missing(np.asarray(whole), self._attributes.encoding(name))
        spread = self._attributes.maps.get(name)
        if spread is None:
            return made
        made = made if made.dtype.kind == "f" or spread.is_whole else made.astype("f8")
        return spread.spread(made, nan if made.dtype.kind == "f" else 0)


class Judging:
    """Finds the steps for which a condition holds.

    Parameters
    ----------
    condition
        What must hold.
    where
        The key in the configuration, for errors.
    fields
        Reads fields.
    attributes
        Of the stream.
    """

    def __init__(self, condition: Condition, where: str, fields: WholeFields, attributes: StreamAttributes) -> None:
        self._when, self._where, self._fields, self._attributes = condition, where, fields, attributes

    def holds(self, parts: Parts) -> bool:
        """Whether it holds for a step; not if that lacks a variable.

        Raises
        ------
        ConfigError
            If a variable isn't a single value where one is needed.
        """
        places = places_in(layouts_of(parts))
        singles = singles_in(parts)
        if not places.keys() | singles.keys() >= set(self._when.variables):
            return False
        numbers = {name: self._statistic(item, parts, places) for name, item in self._when.statistics.items()}
        for name in self._when.singles:
            if name not in singles:
                raise ConfigError(f"{self._where}: {name} is a field: write max({name}), or min, mean or sum")
            numbers[name] = float(without_missing(np.asarray(singles[name]), self._attributes.encoding(name)))
        return self._when.holds(numbers)

    def _statistic(self, item: FieldStatistic, parts: Parts, places: Mapping[str, FieldPlace]) -> float:
        for name in item.of.variables:
            if name not in places:
                raise ConfigError(
                    f"{self._where}: {name} is a single value: write {name} alone, not {item.how}({name})"
                )
        if item.how in EXTREMES and item.of.is_plain:
            (name,) = item.of.variables
            place = places[name]
            # Points that a later Put has covered may have been a block's extreme.
            disjoint = place.points == sum(prod(parts[node].layout.forms[at].count) for node, at in place.pieces)
            if disjoint and is_bare(self._attributes.encoding(name), place.like.dtype) and self._has_no_fill(name):
                return _extreme(item.how, parts, place)
        return item.evaluate(lambda name: self._field(name, parts, places[name]))

    def _has_no_fill(self, name: str) -> bool:
        """Whether blocks' minima and maxima are those of valid values."""
        return not self._attributes.encoding(name).missing

    def _field(self, name: str, parts: Parts, place: FieldPlace) -> Array:
        try:
            return self._fields.read(name, parts, place)
        except ConfigError as error:
            raise ConfigError(f"{self._where}: {error}") from None


def _extreme(how: str, parts: Parts, place: FieldPlace) -> float:
    """Return a field's minimum or maximum as its ranks have found it."""
    blocks = [parts[node].blocks[at] for node, at in place.pieces]
    found = [block.min if how == "min" else block.max for block in blocks]
    known = [float(value) for value in found if value is not None]
    return (min(known) if how == "min" else max(known)) if known else nan


def _is_number(kind: str) -> bool:
    return kind in DTYPES and DTYPES[kind].kind in "iuf"


def singles_in(parts: Parts) -> dict[str, float]:
    """Return the single numbers of a step by their names."""
    found: dict[str, list[tuple[Any, BlockForm]]] = {}
    for part in parts.values():
        for at, value in zip(part.layout.singles, part.values, strict=True):
            form = part.layout.forms[at]
            if form.kind == "GlobalValue" and _is_number(form.type):
                found.setdefault(form.name, []).append((value, form))
    return {name: number_of(seen(told)[0][0]) for name, told in found.items()}
