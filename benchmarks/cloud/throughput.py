"""Bytes of files before a bucket (the paper's figures 2 and 3), beside tmpfs, s3fs, rclone and the bare link."""

import json
import shutil
from contextlib import ExitStack

from benchmarks.cloud.bed import ADDRESSES, COMPUTE, IO_NODES, PAPER, UNSHAPED, Bed, Rates, cloud_bed, missing
from benchmarks.cloud.systems import Client, System, at_once, baselines, nodes, tmpfs
from benchmarks.rows import Row

MB = 1e6
WAYS = ("write in sequence", "read in sequence", "read again", "read 4 KiB at random", "write 4 KiB at random")
LINK = "the link, iperf3"
COUNTS = (1, 2, 4)


def measure(quick: bool = False) -> list[Row]:
    """Measure one client, then four, over links as in the paper and over unshaped ones."""
    if reason := missing():
        print(f"not measured: {reason}")
        return []
    rows = []
    for rates in (PAPER, UNSHAPED):
        size = (32 if quick else 128) << 20
        with cloud_bed(rates) as bed:
            rows += _one_client(bed, size, 1.0 if quick else 3.0)
            rows += _four_clients(bed, size)
    return rows


def _systems(rates: Rates) -> dict[str, System]:
    far = {f"{count} IOnodes": nodes(IO_NODES[:count]) for count in COUNTS}
    near = {
        "IOnode of the own host": nodes(COMPUTE[:1], options=("--piece", "4GiB")),
        "IOnode of the own host, no passthrough": nodes(COMPUTE[:1], "--no-passthrough", options=("--piece", "4GiB")),
    }
    return {"tmpfs": tmpfs, **(far if rates is PAPER else near | far), **baselines()}


def _one_client(bed: Bed, size: int, longest_s: float) -> list[Row]:
    figures: dict[str, dict[str, float]] = {}
    for name, system in _systems(bed.rates).items():
        with system(bed) as mount, ExitStack() as stack:
            writer = stack.enter_context(mount(COMPUTE[0]))
            reader = writer if "own host" in name else stack.enter_context(mount(COMPUTE[1]))
            figures[name] = _bytes(writer, reader, f"f-{list(_systems(bed.rates)).index(name)}", size, longest_s)
    link = _iperf(bed)
    rows = []
    for way in WAYS:
        unit = "1/s" if "random" in way else "MB/s"
        for name, found in figures.items():
            base = link[way] if name.endswith("IOnodes") and way in link else figures["tmpfs"][way]
            rows.append(Row(f"{bed.rates.name}: {way}, {name}", found[way], unit, found[way] / base))
        if way in link:
            rows.append(Row(f"{bed.rates.name}: {way}, {LINK}", link[way], unit, 1.0))
    return rows


def _bytes(writer: Client, reader: Client, name: str, size: int, longest_s: float) -> dict[str, float]:
    written, found = f"{writer.directory}/{name}", f"{reader.directory}/{name}"
    return {
        "write in sequence": size / MB / writer.ask("write", written, size),
        "read in sequence": size / MB / reader.ask("read", found, size),
        "read again": size / MB / min(reader.ask("read", found, size) for _ in range(3)),
        "read 4 KiB at random": reader.ask("read_here_and_there", found, longest_s),
        "write 4 KiB at random": writer.ask("write_here_and_there", written, longest_s),
    }


def _four_clients(bed: Bed, size: int) -> list[Row]:
    """Time four that write at once, then each read what its neighbour has written."""
    figures: dict[int, dict[str, float]] = {}
    for count in COUNTS:
        with nodes(IO_NODES[:count])(bed) as mount, ExitStack() as stack:
            clients = [stack.enter_context(mount(host)) for host in COMPUTE]
            names = [f"of-{count}-{number}" for number in range(len(clients))]
            together = len(clients) * size / MB
            wrote = [("write", f"{client.directory}/{name}", size) for client, name in zip(clients, names, strict=True)]
            others = names[1:] + names[:1]
            red = [("read", f"{client.directory}/{name}", size) for client, name in zip(clients, others, strict=True)]
            written_s, read_s = max(at_once(clients, wrote)), max(at_once(clients, red))
            figures[count] = {"write in sequence": together / written_s, "read in sequence": together / read_s}
    return [
        Row(f"{bed.rates.name}: {way}, 4 clients, {count} IOnodes", found[way], "MB/s", found[way] / figures[1][way])
        for way in WAYS[:2]
        for count, found in figures.items()
    ]


def _iperf(bed: Bed) -> dict[str, float]:
    """Return what one stream of TCP does between a compute node and an I/O node."""
    if shutil.which("iperf3") is None:
        print("not measured: iperf3 is missing: apt install iperf3")
        return {}
    with bed.running(IO_NODES[0], ["iperf3", "--server"], "iperf.log"):
        there = _stream(bed)
        back = _stream(bed, "--reverse")
    return {"write in sequence": there, "read in sequence": back, "read again": back}


def _stream(bed: Bed, *words: str) -> float:
    tries = 20
    while True:
        try:
            said = bed.call(COMPUTE[0], "iperf3", "--client", ADDRESSES[IO_NODES[0]], "--time", "2", "--json", *words)
            return float(json.loads(said)["end"]["sum_received"]["bits_per_second"]) / 8 / MB
        except (RuntimeError, KeyError):  # the server isn't there yet
            tries -= 1
            if not tries:
                raise
