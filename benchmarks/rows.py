"""Rows of figures, and the table that they make."""

import json
import os
import platform
from dataclasses import asdict, dataclass
from pathlib import Path

import adios2
import numpy as np


@dataclass(frozen=True)
class Row:
    """One figure: always beside what it is compared with, measured in the same run."""

    name: str
    """What was measured."""
    value: float
    """How much."""
    unit: str
    """Of the value."""
    ratio: float | None = None
    """To the row that the group is compared with."""


def machine() -> str:
    """Describe this machine, without its name."""
    cpu = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(":")[1].strip() for line in cpu if line.startswith("model name")), platform.machine())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{model}, {os.cpu_count()} cores, {memory:.0f} GiB, Linux {platform.release()}, Python "
        f"{platform.python_version()}, NumPy {np.__version__}, ADIOS2 {adios2.__version__}"
    )


def markdown(groups: dict[str, list[Row]]) -> str:
    """Write the rows of all groups as one page."""
    lines = [f"Measured on: {machine()}", ""]
    for title, rows in groups.items():
        lines += [f"## {title}", "", "| what | value | ratio |", "| --- | ---: | ---: |"]
        for row in rows:
            ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
            lines.append(f"| {row.name} | {row.value:.4g} {row.unit} | {ratio} |")
        lines.append("")
    return "\n".join(lines)


def as_json(groups: dict[str, list[Row]]) -> str:
    """Write the rows of all groups for programs."""
    rows = {title: [asdict(row) for row in rows] for title, rows in groups.items()}
    return json.dumps({"machine": machine(), "groups": rows}, indent=1) + "\n"
