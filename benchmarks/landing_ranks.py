"""Landing of several ranks at once: 1, 2 and 4 writers of 64 MiB steps, against as many memcpys at once."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import bbflow_adios2

from bbflow.landing.embedded import EmbeddedNodes
from benchmarks.consumer import free_steps
from benchmarks.rows import Row

STEP_BYTES = 64 << 20
WRITER = Path(__file__).parent / "landing_writer.py"


def _run(folder: Path, ranks: int, steps: int) -> dict[str, list[float]]:
    """Copy and land on all ranks at once, in turns; return the seconds of each without the first quarter."""
    with EmbeddedNodes(1, 4 * ranks * STEP_BYTES) as nodes:
        consumer = threading.Thread(target=free_steps, args=(nodes.nodes[0], "field", steps))
        consumer.start()
        config = folder / "adios2.xml"
        config.write_text(bbflow_adios2.engine_xml("field"))
        environment = os.environ | bbflow_adios2.environment(nodes.contact)
        command = [sys.executable, str(WRITER), str(config), "out", str(steps)]
        processes = [
            subprocess.Popen(
                command, env=environment | {"PMI_RANK": str(rank), "PMI_SIZE": str(ranks)}, stdout=subprocess.PIPE
            )
            for rank in range(ranks)
        ]  # fmt: skip
        said = [json.loads(process.communicate()[0].splitlines()[-1]) for process in processes]
        consumer.join()
    return {key: [second for times in said for second in times[key][steps // 4 :]] for key in said[0]}


def measure(*, quick: bool) -> list[Row]:
    """Measure; ratios are to memcpy in the same processes, between their steps."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="bbflow-bench-") as name:
        for ranks in (1, 2, 4):
            times = _run(Path(name), ranks, 20 if quick else 60)
            put, copy = (statistics.median(times[key]) for key in ("put", "memcpy"))
            gigabytes = ranks * STEP_BYTES / 1e9
            rows.append(Row(f"{ranks} ranks: Put to EndStep", gigabytes / put, "GB/s", copy / put))
            rows.append(Row(f"{ranks} memcpys at once (the ratio's 1)", gigabytes / copy, "GB/s", 1.0))
    return rows
