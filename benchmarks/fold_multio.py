"""Multio on the steps of the fold: its statistics action in this process, whose results go to a file in memory."""

import json
import os
import tempfile
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.rates import rate

try:
    import multio
except ImportError:
    multio = None

OPERATIONS = ("average", "minimum", "maximum")
"""What it has of mean, std, min and max."""


def measure(fields: np.ndarray, edges: np.ndarray, repeat: int) -> dict[str, dict[str, float]]:
    """Measure what Multio has, which is statistics only, in million points a second."""
    if multio is None:
        print("fold: Multio is not installed (pip install pymultio multiolib): its rows are left out")
        return {}
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="bbflow-bench-") as name:
        target = Path(name) / "out"
        sets = (OPERATIONS, *((operation,) for operation in OPERATIONS))
        rates = {
            f"Multio: {'+'.join(operations)}": rate(partial(_run, fields, operations, target), fields.size, repeat)
            for operations in sets
        }
        _run(fields, ("maximum",), target)
        if not np.array_equal(np.fromfile(target, "f4"), fields.max(0).reshape(-1)):
            raise AssertionError("Multio's maximum isn't that of the steps: its rates would mean nothing")
    return {"statistics": rates}


def _run(fields: np.ndarray, operations: tuple[str, ...], target: Path) -> None:
    action = {
        "type": "statistics",
        "operations": list(operations),
        "output-frequency": f"{len(fields) // 24}d",
        "options": {"initial-condition-present": False, "step-frequency": 1, "time-step": 3600},
    }
    sink = {"type": "sink", "sinks": [{"type": "file", "append": False, "per-server": False, "path": str(target)}]}
    os.environ["MULTIO_PLANS"] = json.dumps({"plans": [{"name": "statistics", "actions": [action, sink]}]})
    connection = multio.Multio()
    connection.open_connections()
    for number, field in enumerate(fields, start=1):
        about = {
            "category": "model", "param": "t", "levtype": "sfc", "level": 0, "gridType": "none", "precision": "single",
            "globalSize": field.size, "step": number, "timeStep": 3600, "startDate": 20000101, "startTime": 0,
            "date": 20000101, "time": 0,
        }  # fmt: skip
        metadata = multio.Metadata(connection, about)
        connection.write_field(metadata, field.reshape(-1))
    connection.flush(metadata)
    connection.close_connections()
