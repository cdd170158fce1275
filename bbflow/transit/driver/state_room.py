"""Whether the partial states of a stream's fields have room: asked when its first step shows how large they are."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from bbflow.configuring.settings import Config
from bbflow.operators.diagnostic import Diagnostic
from bbflow.operators.space.placement import Placement
from bbflow.operators.steps import DType
from bbflow.store.pool import free_bytes
from bbflow.stream.cf import StreamAttributes
from bbflow.stream.records import Block
from bbflow.transit.clusters.cluster import SubmittedTask, take
from bbflow.transit.driver.first_step import FirstStep
from bbflow.transit.folding.fixed import Fixed
from bbflow.transit.folding.lanes import field_dtype
from bbflow.transit.folding.regions import PlacedForm, forms_by_name, regions
from bbflow.transit.states.footprint import Footprint, StateRoom, footprint, room_for
from bbflow.view.layout import PlacedBlock


def check_room(
    first: FirstStep, config: Config, placements: Mapping[str, Placement], attributes: StreamAttributes, fixed: Fixed
) -> StateRoom:
    """Check that the states have room on each node.

    Raises
    ------
    ConfigError
        If they are above `nodes: state_capacity`.
    CapacityError
        If that isn't free where they lie.
    """
    diagnostics, nodes = config.diagnostics.values(), list(first.nodes)
    found = footprints(
        diagnostics, first.placed, placements, attributes, fixed, nodes,
        lambda node: first.cluster.processes(first.nodes[node].host),
    )  # fmt: skip
    asked = {node: _ask_free(first, node) for node in found}
    free = dict(zip(asked, take([*asked.values()]), strict=True))
    # How long users' operators take isn't known.
    has_users = any(item.is_users for diagnostic in diagnostics for item in diagnostic.operators)
    most_spans = 1 if has_users else config.workers.batch_steps
    return room_for(found, config.nodes.state_capacity, free, "nodes: state_capacity", most_spans)


def footprints(
    diagnostics: Iterable[Diagnostic],
    placed: Sequence[PlacedBlock],
    placements: Mapping[str, Placement],
    attributes: StreamAttributes,
    fixed: Fixed,
    nodes: Sequence[str],
    processes: Callable[[str], int],
) -> dict[str, list[Footprint]]:
    """Return what the states of fields take, by node.

    Parameters
    ----------
    diagnostics
        What is computed; those that lack a variable take nothing.
    placed
        The blocks of a step.
    placements
        Diagnostic to where its field lies, of those that have a `space`.
    attributes
        Of the stream.
    fixed
        What is held of the first step.
    nodes
        All nodes.
    processes
        Gives how many worker processes fold for a node.
    """
    found: dict[str, list[Footprint]] = {}
    forms = _forms(placed)
    blocks = {block.name: block for _, block in placed}
    for diagnostic in diagnostics:
        placement = placements.get(diagnostic.key)
        dtype = _dtype(diagnostic, blocks, placement, attributes)
        if dtype is None:
            continue
        for node, counts in _counts(diagnostic, nodes, forms, placement, fixed).items():
            found.setdefault(node, []).append(footprint(diagnostic, dtype, counts, processes(node)))
    return found


def _dtype(
    diagnostic: Diagnostic, blocks: Mapping[str, Block], placement: Placement | None, attributes: StreamAttributes
) -> DType | None:
    """Return the type of the values after the transforms; None if the step lacks a variable."""
    if not blocks.keys() >= set(diagnostic.variables):
        return None
    return diagnostic.transformed_dtype(field_dtype(diagnostic, blocks, attributes.encoding, placement))


def _forms(placed: Sequence[PlacedBlock]) -> dict[str, list[PlacedForm]]:
    by_node: dict[str, list[Block]] = {}
    for node, block in placed:
        by_node.setdefault(node, []).append(block)
    return forms_by_name(by_node)


def _counts(
    diagnostic: Diagnostic,
    nodes: Sequence[str],
    forms: Mapping[str, Sequence[PlacedForm]],
    placement: Placement | None,
    fixed: Fixed,
) -> dict[str, list[tuple[int, ...]]]:
    """Return the shapes of the states' regions on each node."""
    found: dict[str, list[tuple[int, ...]]] = {}
    for key in regions(diagnostic, forms, None if placement is None else placement.column, fixed):
        local = None if placement is None else placement.local(key.start, key.count)
        if placement is None:
            found.setdefault(key.node, []).append(key.count)
        elif local is not None and local.complete:
            found.setdefault(key.node, []).append(local.count)
        elif local is not None:  # joined step by step into one state
            return {min(nodes): [placement.shape]}
    return found


def _ask_free(first: FirstStep, node: str) -> SubmittedTask[int]:
    address = first.nodes[node]
    return first.cluster.submit(free_bytes, address.directory, host=address.host, done=lambda: None)
