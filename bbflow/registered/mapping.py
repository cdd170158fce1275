"""The data-parallel map: each node's blocks are handed to the function where they lie."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from itertools import zip_longest
from pathlib import Path

from bbflow.net.contact import NodeAddress
from bbflow.registered.following import FollowedStep, Following, grouped
from bbflow.registered.process import FunctionProcess
from bbflow.registered.registration import Registration
from bbflow.registered.runner import Part
from bbflow.store.block_values import read_block
from bbflow.store.spilled import map_spilled
from bbflow.stream.records import Block
from bbflow.view.lease import Lease

Placed = tuple[int, Block]
"""A step's number and a block of it."""
Call = tuple[NodeAddress, Sequence[Placed]]
"""A node, and blocks of it that its function gets at once."""


def map_blocks(registration: Registration, following: Following, scratch: Path, stack: ExitStack) -> list[Path]:
    """Hand all blocks to `map`, until the stream is closed.

    Parameters
    ----------
    registration
        What to call.
    following
        Gives the steps.
    scratch
        Where the intermediate files are made.
    stack
        Closes the processes.

    Returns
    -------
    list of Path
        The intermediate file of each node.

    Raises
    ------
    OperatorError
        If the function crashes.
    StreamError, CapacityError, ConfigError, NodeError
        As `Following.steps`.
    """
    processes = {
        node.name: stack.enter_context(
            FunctionProcess(registration.map, scratch / f"{node.name}.map", registration.launcher(node.host))
        )
        for node in following.nodes
    }
    for process in processes.values():
        process.check()
    lease = Lease(registration.contact, registration.stream)
    for group in grouped(following.steps(), registration.group or 1):
        # One call for each node at a time, so that all nodes work side by side.
        for calls in zip_longest(*calls_by_node(group, each_block=registration.group is None)):
            busy = [call for call in calls if call is not None]
            for node, blocks in busy:
                is_beside = registration.is_beside(node.host)
                parts, in_pool = parts_of(node, blocks) if is_beside else (fetch(node, blocks, lease, scratch), False)
                processes[node.name].start(parts, describe(registration.stream, node, blocks), in_pool=in_pool)
            for node, blocks in busy:
                processes[node.name].wait(f"step {blocks[0][0]} on BB node {node.name}")
        following.pass_through(group[-1].number)
    return [process.target for process in processes.values()]


def calls_by_node(group: Sequence[FollowedStep], *, each_block: bool) -> list[list[Call]]:
    """Return what is handed over at once on each node: its blocks one by one, or together by step and then rank."""
    found: dict[NodeAddress, list[Placed]] = {}
    for step in group:
        for node, block in step.blocks:
            found.setdefault(node, []).append((step.number, block))
    return [
        [(node, [placed]) for placed in blocks] if each_block else [(node, blocks)] for node, blocks in found.items()
    ]


def parts_of(node: NodeAddress, blocks: Sequence[Placed]) -> tuple[list[Part], bool]:
    """Return where the bytes of some blocks lie on their host, and whether that is the pool."""
    for _, block in blocks:
        if block.file:
            map_spilled(block.file, block.offset, block.bytes)  # is checked here
    in_pool = not any(block.file for _, block in blocks)
    return [(block.file or node.pool, block.offset, block.bytes) for _, block in blocks], in_pool


def fetch(node: NodeAddress, blocks: Sequence[Placed], lease: Lease, scratch: Path) -> list[Part]:
    """Bring the bytes of some blocks here from another host."""
    path = scratch / f"{node.name}.fetched"
    steps = {number for number, _ in blocks}
    lease.pin(node.name, steps)
    with path.open("wb") as file:
        for number, block in blocks:
            file.write(_fetched(node, number, block, lease))
    lease.unpin(node.name, steps)
    return [(str(path), 0, sum(block.bytes for _, block in blocks))]


def _fetched(node: NodeAddress, step: int, block: Block, lease: Lease) -> memoryview:
    if block.file:  # it was spilled to a file system that all hosts see
        return memoryview(read_block(node.pool, block).tobytes())
    values = memoryview(bytearray(block.bytes))
    lease.get(node.name, step, block.offset, values)
    return values


def describe(stream: str, node: NodeAddress, blocks: Sequence[Placed]) -> Mapping[str, str]:
    """Describe in environment variables what `buf` holds."""
    _, first = blocks[0]
    return {
        "BBFLOW_STREAM": stream,
        "BBFLOW_VARIABLE": first.name,
        "BBFLOW_TYPE": first.type,
        "BBFLOW_SHAPE": dims(first.shape),
        "BBFLOW_NODE": node.name,
        "BBFLOW_STEPS": " ".join(str(number) for number, _ in blocks),
        "BBFLOW_STARTS": " ".join(dims(block.start) for _, block in blocks),
        "BBFLOW_COUNTS": " ".join(dims(block.count) for _, block in blocks),
    }


def dims(lengths: Sequence[int]) -> str:
    """Write lengths as ``8,5``."""
    return ",".join(str(length) for length in lengths)
