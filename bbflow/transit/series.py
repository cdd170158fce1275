"""Steps that depend on blocks of several ranks, such as a global mean: their contributions are joined step by step."""

from collections.abc import Iterator, Mapping, Sequence
from math import prod

import numpy as np

from bbflow.operators.family import Array
from bbflow.operators.space import Placement
from bbflow.transit.fold import PartialSteps


def join_partials(
    partials: Sequence[PartialSteps], placements: Mapping[str, Placement]
) -> Iterator[tuple[str, Sequence[Array]]]:
    """Join the contributions to each field.

    Yields
    ------
    tuple
        A diagnostic's name, and for each step of the batch its values, of shape (points,).
    """
    by_name: dict[str, list[PartialSteps]] = {}
    for part in partials:
        by_name.setdefault(part.diagnostic, []).append(part)
    for name, parts in by_name.items():
        placement = placements[name]
        joined = _join(sorted(parts, key=lambda part: (part.start, part.count)), placement)
        yield name, [np.ascontiguousarray(values) for values in placement.finish(joined)]


def _join(parts: Sequence[PartialSteps], placement: Placement) -> Array:
    steps, components, _ = parts[0].values.shape
    whole = np.full((steps, components, *placement.shape), np.nan)
    reached = np.zeros(placement.shape, bool)
    for part in parts:
        place = tuple(slice(first, first + size) for first, size in zip(part.start, part.count, strict=True))
        values = part.values.reshape(steps, components, *part.count)
        known = whole[:, :, *place]
        both = placement.merge(known.reshape(part.values.shape), part.values).reshape(values.shape)
        whole[:, :, *place] = np.where(reached[place], both, values)
        reached[place] = True
    return whole.reshape(steps, components, max(prod(placement.shape), 1))
