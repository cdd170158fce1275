"""Measure and write the table."""

import argparse
from pathlib import Path

from benchmarks import (
    cells,
    chunks,
    control,
    drain,
    ensemble,
    first_fold,
    fold,
    foretold,
    guarding,
    landing,
    landing_ranks,
    landing_tcp,
    levels,
    main_job,
    many_workers,
    memory,
    names,
    publishing,
    reading,
    remap,
    scale,
    scale_rate,
    scale_runs,
    snakemake_checks,
    staging,
    testbed,
    windows,
    workers,
)
from benchmarks.cloud import metadata, mosaic, renting, throughput
from benchmarks.emulate import sizes
from benchmarks.rows import Row, as_json, markdown

FIGURES = {
    "landing": landing,
    "landing_ranks": landing_ranks,
    "landing_tcp": landing_tcp,
    "reading": reading,
    "scale": scale,
    "scale_rate": scale_rate,
    "scale_runs": scale_runs,
    "emulate": sizes,
    "names": names,
    "many_workers": many_workers,
    "windows": windows,
    "workers": workers,
    "control": control,
    "drain": drain,
    "chunks": chunks,
    "cells": cells,
    "levels": levels,
    "fold": fold,
    "ensemble": ensemble,
    "main_job": main_job,
    "first_fold": first_fold,
    "foretold": foretold,
    "memory": memory,
    "publishing": publishing,
    "remap": remap,
    "guarding": guarding,
    "cloud_throughput": throughput,
    "cloud_metadata": metadata,
    "cloud_montage": mosaic,
    "cloud_renting": renting,
    "snakemake_checks": snakemake_checks,
    "staging": staging,
    "testbed": testbed,
}
CLOUD = [name for name in FIGURES if name.startswith("cloud_")]
DRAWN = {"testbed"}
"""These write more than rows: a picture, and every run."""


def main() -> None:
    """Run the benchmarks that are named, or all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("names", nargs="*", choices=[*FIGURES, "cloud", []], help="default: all")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--output", type=Path, default=Path("bench-out"), help="default: %(default)s")
    options = parser.parse_args()
    groups: dict[str, list[Row]] = {}
    options.output.mkdir(parents=True, exist_ok=True)
    wanted = [part for name in options.names for part in (CLOUD if name == "cloud" else [name])]
    for name in wanted or FIGURES:
        title = (FIGURES[name].__doc__ or name).strip()
        extra = {"output": options.output} if name in DRAWN else {}
        groups[title] = FIGURES[name].measure(quick=options.quick, **extra)
        (options.output / "results.md").write_text(markdown(groups))
        (options.output / "results.json").write_text(as_json(groups))
        print(markdown({title: groups[title]}), flush=True)


if __name__ == "__main__":
    main()
