"""Time x Cost for numbers of compute and I/O nodes, beside what the model foretells (the paper's table 3, figure 4).

A program with the profile of the paper's table 2: it reads its input from the bucket, computes, and writes and reads
files that the I/O nodes hold. What it computes is waited, so that this machine's few CPUs don't count as compute nodes.
"""

import statistics
import time
from contextlib import ExitStack
from itertools import product

from bbflow.models.cloud import CloudChoice, CloudProfile, cloud_choices, least_time_cost
from benchmarks.cloud.bed import COMPUTE, IO_NODES, PAPER, Bed, cloud_bed, missing
from benchmarks.cloud.systems import Client, at_once, nodes
from benchmarks.rows import Row

INPUT_BYTES, BUFFERED_BYTES = 25_000_000, 215_000_000
COMPUTE_S, SERIAL_SHARE, PRICE_PER_S = 2.638, 0.45, 0.405
COUNTS = (1, 2, 4)
FILE_BYTES = 1 << 20
INPUT = "input"


def measure(quick: bool = False) -> list[Row]:
    """Measure all combinations; the profile's throughputs are those of one node of each kind."""
    if reason := missing():
        print(f"not measured: {reason}")
        return []
    with cloud_bed(PAPER) as bed:
        _put_input(bed)
        runs = {(c, i): [_run(bed, c, i) for _ in range(1 if quick else 3)] for c, i in product(COUNTS, COUNTS)}
    spent = {key: [statistics.median(part) for part in zip(*times, strict=True)] for key, times in runs.items()}
    input_s, buffered_s, _ = spent[1, 1]
    profile = CloudProfile(
        input_bytes=INPUT_BYTES, buffered_bytes=BUFFERED_BYTES, compute_s=COMPUTE_S, serial_share=SERIAL_SHARE,
        cloud_bytes_per_s=INPUT_BYTES / input_s, node_bytes_per_s=BUFFERED_BYTES / buffered_s, price_per_s=PRICE_PER_S,
    )  # fmt: skip
    return _rows(profile, {key: times[2] for key, times in spent.items()})


def _rows(profile: CloudProfile, measured_s: dict[tuple[int, int], float]) -> list[Row]:
    rows = [
        Row("throughput of the cloud storage, measured", profile.cloud_bytes_per_s / 1e6, "MB/s"),
        Row("throughput of an I/O node, measured", profile.node_bytes_per_s / 1e6, "MB/s"),
    ]
    for compute_nodes in COUNTS:
        foretold = cloud_choices(profile, [compute_nodes], COUNTS)
        seen = [_choice(profile, choice, measured_s) for choice in foretold]
        for model, real in zip(foretold, seen, strict=True):
            what = f"{compute_nodes} compute nodes, {model.io_nodes} I/O nodes"
            rows.append(Row(f"{what}: time", real.time_s, "s", real.time_s / model.time_s))
            rows.append(Row(f"{what}: Time x Cost", real.time_cost, "$ s", real.time_cost / model.time_cost))
        best, chosen = least_time_cost(seen), least_time_cost(foretold)
        rows.append(Row(f"{compute_nodes} compute nodes: I/O nodes, foretold", chosen.io_nodes, ""))
        rows.append(Row(f"{compute_nodes} compute nodes: I/O nodes, measured", best.io_nodes, ""))
        taken = next(real for real in seen if real.io_nodes == chosen.io_nodes)
        what = f"{compute_nodes} compute nodes: Time x Cost with as many as foretold, to the least"
        rows.append(Row(what, taken.time_cost, "$ s", taken.time_cost / best.time_cost))
    return rows


def _choice(profile: CloudProfile, model: CloudChoice, measured_s: dict[tuple[int, int], float]) -> CloudChoice:
    time_s = measured_s[model.compute_nodes, model.io_nodes]
    rented = model.compute_nodes + model.io_nodes + model.masters
    return CloudChoice(
        model.compute_nodes, model.io_nodes, model.masters, time_s, profile.price_per_s * time_s * rented
    )


def _put_input(bed: Bed) -> None:
    with nodes(IO_NODES[:1])(bed) as mount, mount(COMPUTE[0]) as client:
        client.ask("write", f"{client.directory}/{INPUT}", INPUT_BYTES)


def _run(bed: Bed, compute_nodes: int, io_nodes: int) -> tuple[float, float, float]:
    """Return the seconds of reading the input, of buffered files, and of everything."""
    scratch = ("--scratch", "*.buffered", "--piece", str(FILE_BYTES))
    with nodes(IO_NODES[:io_nodes], options=scratch)(bed) as mount, ExitStack() as stack:
        clients = [stack.enter_context(mount(host)) for host in COMPUTE[:compute_nodes]]
        begun_s = time.perf_counter()
        input_s = clients[0].ask("read", f"{clients[0].directory}/{INPUT}", INPUT_BYTES)
        serial_s = _buffered(clients[:1], SERIAL_SHARE, "serial")
        parallel_s = _buffered(clients, (1 - SERIAL_SHARE) / compute_nodes, "parallel")
        return input_s, serial_s + parallel_s, time.perf_counter() - begun_s


def _buffered(clients: list[Client], share: float, what: str) -> float:
    """Compute each share, write half of its bytes, and read the other half: what its neighbour has written."""
    count = round(BUFFERED_BYTES / 2 * share / FILE_BYTES)
    names = [[f"{what}-{n}-{k}.buffered" for k in range(count)] for n in range(len(clients))]
    at_once(clients, [("compute", COMPUTE_S * share)] * len(clients))
    begun_s = time.perf_counter()
    places = [str(client.directory) for client in clients]
    at_once(clients, [("write_files", place, own, FILE_BYTES) for place, own in zip(places, names, strict=True)])
    others = names[1:] + names[:1]
    at_once(clients, [("read_files", place, other, FILE_BYTES) for place, other in zip(places, others, strict=True)])
    return time.perf_counter() - begun_s
