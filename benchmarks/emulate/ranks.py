"""Many writer ranks in one process: each says to its node's agent over a socket of its own what the engine would say.

All take a step together, as the ranks of a model do. Run by `bed.py`.
"""

import math
import random
import struct
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import numpy as np
from msgspec import UNSET, json

from bbflow.landing.replies import OpenReply, RoomReply
from bbflow.landing.requests import BeginRequest, CloseRequest, CommitRequest, OpenRequest
from bbflow.net.connection import NodeConnection
from bbflow.net.contact import NodeAddress, read_contact
from bbflow.net.frames import parser
from bbflow.net.listen import raise_open_files
from bbflow.net.verdicts import DoneReply
from bbflow.reading.wire_types import Attribute, Row
from bbflow.store.extents import align
from bbflow.store.pool import map_pool_for_writing
from benchmarks.emulate.decompositions import DECOMPOSITIONS, Box, Decomposition, values

BLOCK_BYTES = 64
"""Blocks begin at multiples of this in their extent."""
TIME: Row = ("time", "double", "GlobalValue", (), (), (), 0, 0, 0, 0, False)
UNITS = Attribute("time/units", "string", "hours since 2000-01-01")
parse_room = parser(RoomReply, "a reply")


class EmulatedRank(NodeConnection):
    """One rank, with all its blocks of a step in one extent.

    Parameters
    ----------
    node
        Where it lands.
    stream
        The stream.
    rank, writers, local_writers
        Which one it is of how many, and how many land on the node.
    variables
        How many, each with the same decomposition.
    decomposition
        How they are divided.
    """

    def __init__(
        self, node: NodeAddress, stream: str, rank: int, writers: int, local_writers: int, variables: int,
        decomposition: Decomposition,
    ) -> None:  # fmt: skip
        super().__init__(node)
        self._rank, self._variables, self._shape = rank, range(variables), decomposition.shape
        self._boxes = decomposition.boxes(rank)
        padded = [-(-_bytes_of(box) // BLOCK_BYTES) * BLOCK_BYTES for box in self._boxes]
        *self._places, self._variable_bytes = accumulate(padded, initial=0)
        self._extent_bytes = align(variables * self._variable_bytes)
        asked = OpenRequest(
            stream=stream, rank=rank, writers=writers, local_writers=local_writers, policy="Block", transport="shm",
            open_timeout_s=600.0, loss_timeout_s=60.0, settled=-1, resume=False, moved_from="", host=node.host, pid=1,
        )  # fmt: skip
        self._pool_path = Path(self.request(asked, OpenReply, within_s=None).pool)
        self._offset, self._waited_s = 0, 0.0

    def begin(self, step: int) -> None:
        """Ask for room for a step."""
        self._waited_s -= time.monotonic()
        self._say(BeginRequest(step=step, bytes=self._extent_bytes))

    def take_room(self) -> None:
        """Wait until it has it."""
        self._socket.settimeout(None)
        reply = parse_room(self._hear())
        if not reply.ok or reply.status != "ok":
            raise RuntimeError(f"rank {self._rank} got no room: {reply}")
        ((self._offset, _),) = reply.extents
        self._waited_s += time.monotonic()

    def write(self, step: int, pool: memoryview) -> None:
        """Put its blocks of a step into the pool."""
        for variable, box, place in self._blocks():
            block = values(step, variable, self._shape, box)
            at = self._offset + place
            pool[at : at + block.nbytes] = block.tobytes()

    def _blocks(self) -> Iterator[tuple[int, Box, int]]:
        """Iterate over its blocks: variable, start and count, and first byte in the extent."""
        for variable in self._variables:
            for box, place in zip(self._boxes, self._places, strict=True):
                yield variable, box, variable * self._variable_bytes + place

    def _forms(self) -> tuple[Row, ...]:
        """Make its layout; there may be 20 million blocks in all, so it isn't kept."""
        return (
            *((TIME,) if self._rank == 0 else ()),
            *(
                (f"v{variable:03d}", "float", "GlobalArray", self._shape, *box, self._rank, 0, place, _bytes_of(box),
                 False)
                for variable, box, place in self._blocks()
            ),
        )  # fmt: skip

    def commit(self, step: int) -> None:
        """Commit a step."""
        self._say(
            CommitRequest(
                step=step,
                layout=0,
                forms=UNSET if step else self._forms(),
                sources=struct.pack("<q", self._offset),
                files=(),
                values=(float(step),) if self._rank == 0 else (),
                extremes=b"",
                attributes=(UNITS,) if self._rank == step == 0 else (),
                open_s=0.0,
                waited_s=self._waited_s,
            )
        )

    def leave(self) -> None:
        """Close the stream, and hang up."""
        self.request(CloseRequest(), DoneReply, within_s=None)
        self.close()

    @property
    def pool_path(self) -> Path:
        """Path of the memory that its blocks go into."""
        return self._pool_path


def _bytes_of(box: Box) -> int:
    return 4 * math.prod(box[1])


@dataclass(frozen=True, slots=True)
class Job:
    """What the ranks of a model write."""

    decomposition: str
    """One of `DECOMPOSITIONS`."""
    ranks: int
    variables: int
    steps: int
    every_s: float = 0.0
    """From step to step; at once if 0."""
    late_s: float = 0.0
    """How late one rank is, another in each step."""
    data: bool = False
    """Whether values are written; otherwise blocks are what lies there."""
    stream: str = "emulated"

    def opened(self, contact: Path, part: int = 0, parts: int = 1) -> list[EmulatedRank]:
        """Open the stream for the ranks of one of several processes, on the nodes in their order."""
        nodes = read_contact(contact)
        decomposition = DECOMPOSITIONS[self.decomposition](self.ranks)
        node_of = [rank * len(nodes) // self.ranks for rank in range(self.ranks)]
        local = np.bincount(node_of, minlength=len(nodes)).tolist()
        return [
            EmulatedRank(
                nodes[node_of[rank]], self.stream, rank, self.ranks, local[node_of[rank]], self.variables,
                decomposition,
            )
            for rank in range(part * self.ranks // parts, (part + 1) * self.ranks // parts)
        ]  # fmt: skip

    def write(self, ranks: Sequence[EmulatedRank], await_driver: Callable[[], object] = lambda: None) -> None:
        """Write all steps, and close the stream.

        Parameters
        ----------
        ranks
            Of this process.
        await_driver
            Called behind the first step: what is measured begins when that is folded.
        """
        pools = {rank.pool_path: map_pool_for_writing(rank.pool_path) for rank in ranks} if self.data else {}
        begin_s = time.monotonic()
        for step in range(self.steps):
            for rank in ranks:
                rank.begin(step)
            for rank in ranks:
                rank.take_room()
                if self.data:
                    rank.write(step, pools[rank.pool_path])
            time.sleep(max(begin_s + step * self.every_s - time.monotonic(), 0.0))
            self._commit(ranks, step)
            if step == 0:
                await_driver()
                begin_s = time.monotonic()
        for rank in ranks:
            rank.leave()

    def _commit(self, ranks: Sequence[EmulatedRank], step: int) -> None:
        late = random.Random(step).choice(ranks)
        for rank in ranks:
            if rank is not late:
                rank.commit(step)
        time.sleep(self.late_s)
        late.commit(step)


def main() -> None:
    """Write what the command line says: contact file, a `Job` as JSON, and which of how many processes this is.

    A line on standard input tells that the first step is folded.
    """
    contact, told, part, parts = sys.argv[1:]
    raise_open_files()
    job = json.decode(told, type=Job)
    job.write(job.opened(Path(contact), int(part), int(parts)), sys.stdin.readline)


if __name__ == "__main__":
    main()
