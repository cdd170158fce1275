"""Calls on names of files before a bucket, from one and from four clients, beside tmpfs, s3fs and rclone."""

from contextlib import ExitStack

from benchmarks.cloud.bed import COMPUTE, IO_NODES, UNSHAPED, Bed, cloud_bed, missing
from benchmarks.cloud.systems import System, at_once, baselines, nodes, tmpfs
from benchmarks.rows import Row


def measure(quick: bool = False) -> list[Row]:
    """Measure names in a directory of each client's own."""
    if reason := missing():
        print(f"not measured: {reason}")
        return []
    figures: dict[str, dict[str, float]] = {}
    with cloud_bed(UNSHAPED) as bed:
        ours = {
            "tmpfs": tmpfs,
            "master of the own host": nodes(COMPUTE[:1]),
            "master of the own host, processors kept awake": nodes(COMPUTE[:1], "--keep-awake"),
            "master of another host": nodes(IO_NODES[:1]),
        }
        for number, (name, system) in enumerate({**ours, **baselines()}.items()):
            count = (500 if quick else 4000) if name in ours else (25 if quick else 100)
            for clients in (1, 4):
                figures[f"{name}, {clients} clients"] = _rates(bed, system, f"of-{number}-{clients}", clients, count)
    return [
        Row(f"{call}, {name}", found[call], "1/s", found[call] / figures[f"tmpfs, {name[-9]} clients"][call])
        for call in next(iter(figures.values()))
        for name, found in figures.items()
    ]


def _rates(bed: Bed, system: System, prefix: str, clients: int, count: int) -> dict[str, float]:
    with system(bed) as mount, ExitStack() as stack:
        there = [stack.enter_context(mount(host)) for host in COMPUTE[:clients]]
        asked = [("names", f"{client.directory}/{prefix}-{n}", count) for n, client in enumerate(there)]
        answers = at_once(there, asked)
    return {call: sum(answer[call] for answer in answers) for call in answers[0]}
