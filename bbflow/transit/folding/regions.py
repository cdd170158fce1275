"""Where the blocks of a step lie in the field of a diagnostic."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache

from bbflow.errors import ConfigError, StreamError
from bbflow.operators.diagnostic import Diagnostic
from bbflow.operators.library import TYPES
from bbflow.operators.space.columns import Column
from bbflow.stream.puts import seen
from bbflow.stream.records import Block, BlockForm
from bbflow.transit.folding.fixed import Fixed, place_of
from bbflow.transit.states.shards import Place, Regions, ShardKey, overlapping

NOTHING: Fixed = {}
Form = Block | BlockForm
PlacedForm = tuple[Place, Form]
PRIME = 2**61 - 1


def forms_by_name(forms: Mapping[str, Sequence[Form]]) -> dict[str, list[PlacedForm]]:
    """Return the forms of each variable that count, each with its place.

    Parameters
    ----------
    forms
        Node name to the forms of the blocks there.
    """
    found: dict[str, list[PlacedForm]] = {}
    for node, own in forms.items():
        for at, form in enumerate(own):
            found.setdefault(form.name, []).append(((node, at), form))
    return {name: seen(own) if own[0][1].kind.startswith("Global") else own for name, own in found.items()}


def check_types(
    number: int, names: Collection[str], forms: Mapping[str, Sequence[PlacedForm]], known: dict[str, str]
) -> None:
    """Check that each of some variables has the type that it had in the steps before, and note it in `known`.

    Raises
    ------
    StreamError
        If one has another type in this step.
    """
    for name in names:
        for kind in {form.type for _, form in forms.get(name, ())}:
            before = known.setdefault(name, kind)
            if kind != before:
                raise StreamError(
                    f"{name} has type {kind} in step {number}, but was {before} before: statistics are of one "
                    "type; let the program keep it, or give the other another name"
                )


def regions(
    diagnostic: Diagnostic,
    forms: Mapping[str, Sequence[PlacedForm]],
    column: Column | None = None,
    fixed: Fixed = NOTHING,
) -> Regions:
    """Find the regions of a step that have a block of each of a diagnostic's variables.

    Parameters
    ----------
    diagnostic
        What is computed.
    forms
        All blocks of the step by the variables' names.
    column
        What is made of the field's columns, if something is: its surface has no levels.
    fixed
        Variables that are held: blocks of them don't matter. Where all of a diagnostic's are, the step must have them.

    Raises
    ------
    ConfigError
        If a block can't be folded, or the variables' blocks don't cover the same regions.
    """
    found: dict[ShardKey, dict[str, Place]] = {}
    single: dict[str, Place] = {}
    flat: dict[tuple[object, ...], dict[str, Place]] = {}
    surface = None if column is None else column.surface
    held = fixed.keys() & set(diagnostic.variables)
    held = held if len(held) < len(diagnostic.variables) else set()
    for name in (own for own in diagnostic.variables if own not in held):
        for place, form in forms.get(name, ()):
            check_foldable(form)
            if form.shape and not form.bytes and not form.folded:
                continue  # a rank that has no points
            if name == surface and form.shape:
                flat.setdefault((place[0], form.start, form.count), {})[name] = place
            elif form.shape:
                key = ShardKey(place[0], diagnostic.key, form.start, form.count)
                found.setdefault(key, {})[name] = place
            else:
                single[name] = place
    if column is not None:
        for key, own in found.items():
            own |= flat.get((key.node, column.without(key.start), column.without(key.count)), {})
    if single and not found and (held or not flat):
        shape = max((fixed[name].form.shape for name in held), key=len, default=())
        found[ShardKey(next(iter(single.values()))[0], diagnostic.key, (0,) * len(shape), shape)] = {}
    for own in found.values():
        own |= {name: place_of(name, fixed) for name in held}
    for name in held:
        _check_fixed(diagnostic, name, fixed[name].form.shape, forms, column)
    present = {name for own in [*found.values(), *flat.values()] for name in own} | set(single)
    if not present.issuperset(diagnostic.variables):
        return {}
    _check_regions(diagnostic, found, set(single), surface)
    return {key: own | single for key, own in found.items()}


def _check_fixed(
    diagnostic: Diagnostic,
    name: str,
    shape: tuple[int, ...],
    forms: Mapping[str, Sequence[PlacedForm]],
    column: Column | None,
) -> None:
    shapes = {own: forms[own][0][1].shape for own in diagnostic.of_variables if own != name and own in forms}
    like = max(shapes, key=lambda own: len(shapes[own]), default=name)
    wanted = shapes.get(like, shape)
    if column is not None and name == column.surface:
        wanted = column.without(wanted)
    if shape and wanted and shape != wanted:
        raise ConfigError(
            f"operators of {diagnostic.name}: {name}, which the first step alone has, has the shape {shape}, but "
            f"{like} {shapes[like]}: variables of one expression must have the same dimensions"
        )


def array_shape(
    diagnostic: Diagnostic, forms: Mapping[str, Sequence[PlacedForm]], fixed: Fixed = NOTHING
) -> tuple[int, ...]:
    """Return the shape of what a diagnostic's field is made of: the array of most dimensions, since others broadcast.

    Parameters
    ----------
    diagnostic
        What is computed.
    forms
        All blocks of a step that has its variables, by the variables' names.
    fixed
        Variables that are held.
    """
    names = diagnostic.of_variables
    return max((fixed[name].form.shape if name in fixed else forms[name][0][1].shape for name in names), key=len)


def _check_regions(
    diagnostic: Diagnostic, found: Mapping[ShardKey, Mapping[str, Place]], single: set[str], surface: str | None
) -> None:
    wanted = set(diagnostic.variables) - single
    for key, own in found.items():
        lacking = sorted(wanted - set(own))
        if lacking:
            raise ConfigError(
                f"operators of {diagnostic.name}: {', '.join(sorted(own))} has a block at {key.start} of shape "
                f"{key.count} on BB node {key.node}, but {', '.join(lacking)} has none there: variables of one "
                f"expression must be decomposed in the same way{_of_surface(surface) if surface in lacking else ''}"
            )


def _of_surface(name: str | None) -> str:
    return f", and the surface pressure {name} as the field is, without its levels"


def check_foldable(form: Form) -> None:
    """Check that a variable's block can be folded.

    Raises
    ------
    ConfigError
        If not.
    """
    if form.kind not in ("GlobalArray", "GlobalValue") or form.type == "string":
        raise ConfigError(
            f"{form.name} is a {form.kind} of type {form.type}: operators need numbers in a global array or "
            "a global value; take it out of 'operators'"
        )
    if form.dtype not in TYPES:
        raise ConfigError(
            f"{form.name} has type {form.type}: operators need real numbers of at most 8 bytes; take it out of "
            "'operators'"
        )


def points_of(keys: Iterable[ShardKey], shape: tuple[int, ...]) -> int:
    """Return a number that tells which points of an array have values, however ranks divide them: 0 if all have.

    It is the sum of ``prod(base[axis] ** index[axis])`` over the points, modulo a prime: a polynomial, by which two
    sets of points are told apart as in Schwartz and Zippel's test of identities. A region's sum is that of geometric
    series, so it takes no longer for many points.

    Parameters
    ----------
    keys
        Regions that don't overlap.
    shape
        The array's.
    """
    found = {(key.start, key.count) for key in keys}
    if sum(math.prod(count) for _, count in found) == math.prod(shape):
        return 0
    return sum(math.prod(map(_series, range(len(start)), start, count)) for start, count in found) % PRIME


@lru_cache(4096)
def _series(axis: int, first: int, size: int) -> int:
    base = 10**9 + 7 + 2 * axis
    return (pow(base, first + size, PRIME) - pow(base, first, PRIME)) * pow(base - 1, -1, PRIME) % PRIME


def check_apart(number: int, keys: Collection[ShardKey]) -> None:
    """Check that a field has each of its points once in a step.

    Raises
    ------
    ConfigError
        If blocks overlap.
    """
    told = list(keys)
    for one, other in overlapping([(key.start, key.count) for key in told]):
        left, right = told[one], told[other]
        raise ConfigError(
            f"operators of {left.diagnostic}: in step {number} the block at {left.start} of shape {left.count} "
            f"on BB node {left.node} and that at {right.start} of shape {right.count} on {right.node} overlap, "
            "so some points would count twice: let the ranks' blocks not overlap"
        )
