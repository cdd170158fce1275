"""Where the blocks of a step lie in the field of a diagnostic."""

from collections.abc import Collection, Iterable, Mapping

from bbflow.errors import ConfigError, nearest
from bbflow.operators.diagnostic import Diagnostic
from bbflow.records import Block
from bbflow.transit.folding.shards import ShardKey, overlap
from bbflow.view.layout import PlacedBlock
from bbflow.view.stream import StreamView

Regions = Mapping[ShardKey, Mapping[str, Block]]
"""Region of a field to the blocks of the variables there."""


def regions(diagnostic: Diagnostic, blocks: Iterable[PlacedBlock]) -> Regions:
    """Find the regions of a step that have a block of each of a diagnostic's variables.

    Parameters
    ----------
    diagnostic
        What is computed.
    blocks
        All blocks of the step, each with the name of its node.

    Raises
    ------
    ConfigError
        If a block can't be folded, or the variables' blocks don't cover the same regions.
    """
    found: dict[ShardKey, dict[str, Block]] = {}
    single: dict[str, tuple[str, Block]] = {}
    for node, block in blocks:
        if block.name in diagnostic.variables:
            _check_foldable(block)
            if block.shape:
                key = ShardKey(node, diagnostic.key, block.start, block.count)
                found.setdefault(key, {})[block.name] = block
            else:
                single[block.name] = node, block
    if not found and len(single) == len(diagnostic.variables):
        node = next(iter(single.values()))[0]
        return {ShardKey(node, diagnostic.key, (), ()): {name: block for name, (_, block) in single.items()}}
    present = {name for own in found.values() for name in own} | set(single)
    if not present.issuperset(diagnostic.variables):
        return {}
    _check_regions(diagnostic, found, set(single))
    return {key: own | {name: block for name, (_, block) in single.items()} for key, own in found.items()}


def _check_regions(diagnostic: Diagnostic, found: Mapping[ShardKey, Mapping[str, Block]], single: set[str]) -> None:
    wanted = set(diagnostic.variables) - single
    for key, own in found.items():
        lacking = sorted(wanted - set(own))
        if lacking:
            raise ConfigError(
                f"operators of {diagnostic.name}: {', '.join(sorted(own))} has a block at {key.start} of shape "
                f"{key.count} on BB node {key.node}, but {', '.join(lacking)} has none there: variables of one "
                "expression must be decomposed in the same way"
            )


def step_time(view: StreamView, number: int, variable: str) -> float:
    """Give a step's time, in the stream's units.

    Raises
    ------
    ConfigError
        If the step has no such single value.
    """
    time = find_time(view, number, variable)
    if time is not None:
        return time
    names = {block.name for _, block in view.blocks(number)}
    raise ConfigError(
        f"step {number} has no single value {variable!r} that tells its time; {nearest(variable, names)} "
        "(set time: variable)"
    )


def find_time(view: StreamView, number: int, variable: str) -> float | None:
    """Give a step's time, in the stream's units; None if it has no such single value."""
    for _, block in view.blocks(number):
        if block.name == variable and isinstance(block.value, int | float):
            return float(block.value)
    return None


def _check_foldable(block: Block) -> None:
    if block.kind not in ("GlobalArray", "GlobalValue") or block.type == "string":
        raise ConfigError(
            f"{block.name} is a {block.kind} of type {block.type}: operators need numbers in a global array or "
            "a global value; take it out of 'operators'"
        )
    if block.dtype.kind == "c":
        raise ConfigError(f"{block.name} is complex: operators need real numbers; take it out of 'operators'")


def check_apart(number: int, keys: Collection[ShardKey]) -> None:
    """Check that a field has each of its points once in a step.

    Raises
    ------
    ConfigError
        If blocks overlap.
    """
    following = sorted(keys, key=lambda key: key.start)
    for at, left in enumerate(following):
        for right in following[at + 1 :]:
            if left.start and right.start[0] >= left.start[0] + left.count[0]:
                break
            if overlap((left.start, left.count), (right.start, right.count)):
                raise ConfigError(
                    f"operators of {left.diagnostic}: in step {number} the block at {left.start} of shape {left.count} "
                    f"on BB node {left.node} and that at {right.start} of shape {right.count} on {right.node} overlap, "
                    "so some points would count twice: let the ranks' blocks not overlap"
                )
