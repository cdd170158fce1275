"""A short life of one node that leaves every kind of record: ``python tests/store/golden_run.py`` writes it anew."""

import tempfile
from pathlib import Path

from testsupport.peers import ANALYSIS, Bench

GOLDEN = Path(__file__).parents[2] / "adios2-engine" / "tests" / "golden" / "index.bin"
PAGES = 16


def live(directory):
    """Write two streams, one of them to its end; the clock stands still, so it is the same each time."""
    bench = Bench(directory, PAGES)
    for rank in (0, 1):
        bench.open(rank, writers=2, policy="Discard")
    epoch = bench.attach("fold", "drain")["epoch"]
    for step in range(3):
        for rank in (0, 1):
            units = [{"name": "v/units", "type": "string", "value": f"K{step}"}] if rank == 0 else []
            bench.commit(rank, step, *bench.begin(rank, step, 2)["extents"], attributes=units)
    for consumer in ("fold", "drain"):
        bench.done(0, epoch, consumer=consumer)
    bench.say(1, "skip", step=3)
    bench.begin(0, 3)
    bench.commit(0, 4, *bench.begin(0, 4, 1)["extents"])
    bench.begin(1, 4, 1)
    bench.open(stream="read", peer=5)
    bench.commit(5, 0, *bench.begin(5, 0, 1)["extents"])
    bench.say(6, "join", stream="read", after=-1)
    bench.say(6, "pass", step=0)
    bench.store.evict()
    bench.say(5, "close", steps=1, attributes=[{"name": "n", "type": "int32_t", "value": [1, 2]}])
    bench.open(stream="gone", peer=7)
    bench.say(7, "abort")
    bench.say(ANALYSIS, "drop", stream="gone")
    bench.store.close()
    return (directory / "index").read_bytes()


def main():
    """Write the golden file."""
    with tempfile.TemporaryDirectory() as folder:
        GOLDEN.write_bytes(live(Path(folder) / "node"))


if __name__ == "__main__":
    main()
