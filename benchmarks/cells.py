"""Cells: 30 levels of 5 million cells put on HEALPix with a pyramid and daily means, while they are written."""

import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil
import yaml
from scipy.spatial import cKDTree

from bbflow.operators.space import parse_space
from bbflow.operators.space.meshes import Mesh, on_sphere
from bbflow.operators.space.regridding import place_space
from bbflow.operators.space.targets import target_of
from bbflow.operators.space.weights import Weights, sparse, write_weights
from bbflow.operators.steps import Array, Steps
from benchmarks.rows import Row
from benchmarks.scale_run import ended, samples

HALVINGS, FEWER, ZOOM, LEVELS = 9, 8, 7, 30
"""ICON's R2B8 has edges that are halved nine times: 20 x 4^9 = 5,242,880 cells."""
STEPS, DAY_STEPS = 32, 4
"""Steps of 629 MB each."""
HELD = 4
"""The pool has room for so many steps."""


def measure(*, quick: bool) -> list[Row]:
    """Run it once, after the product alone has taken a step of as many cells; quick has a quarter of the cells."""
    lat, lon = cell_centres(FEWER if quick else HALVINGS)
    weights = _weights(lat, lon)
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="bbflow-bench-") as name:
        folder = Path(name)
        write_weights(weights, folder / "weights.nc")
        np.save(folder / "centres.npy", np.stack([lat, lon]))
        alone_s = _product_s(folder / "weights.nc", lat, lon)
        return _rows(_run(folder, len(lat)), len(lat), len(weights.values), alone_s)


def cell_centres(halvings: int) -> tuple[Array, Array]:
    """Return latitudes and longitudes of an icosahedron's triangles, divided again and again; neighbours lie near."""
    golden = (1 + 5**0.5) / 2
    corners = np.array([each for a in (-1, 1) for b in (-golden, golden) for each in ([0, a, b], [a, b, 0], [b, 0, a])])
    distance = np.linalg.norm(corners[:, None] - corners, axis=2)
    faces = [own for own in itertools.combinations(range(12), 3) if all(distance[i, j] < 2.1 for i, j in
             itertools.combinations(own, 2))]  # fmt: skip
    triangles = (corners / np.linalg.norm(corners[0]))[np.array(faces)]
    for _ in range(halvings):
        middles = triangles + np.roll(triangles, -1, axis=1)
        middles *= np.linalg.norm(triangles[:, :1], axis=2, keepdims=True) / np.linalg.norm(
            middles, axis=2, keepdims=True
        )
        ab, bc, ca = (middles[:, at] for at in range(3))
        a, b, c = (triangles[:, at] for at in range(3))
        parts = [[ab, bc, ca], [a, ab, ca], [ab, b, bc], [ca, bc, c]]
        triangles = np.stack([np.stack(part, axis=1) for part in parts], axis=1).reshape(-1, 3, 3)
    centres = triangles.sum(axis=1)
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    return np.rad2deg(np.arcsin(centres[:, 2])), np.rad2deg(np.arctan2(centres[:, 1], centres[:, 0])) % 360


def _weights(lat: Array, lon: Array) -> Weights:
    """Return means over the cells that are nearest to each of the target's."""
    source, target = Mesh((len(lat),), lat, lon), target_of(f"hpz{ZOOM}")
    rows = cKDTree(on_sphere(*target.centres)).query(on_sphere(lat, lon))[1].astype("i8")
    shares = 1 / np.bincount(rows, minlength=target.size)[rows]
    return sparse("cells", "con", (source, target), (len(lat), target.size), (np.arange(len(lat)), rows, shares))


def _product_s(path: Path, lat: Array, lon: Array) -> float:
    """Return the seconds of CPU time that the product of a step takes by itself."""
    told = {"clat": {"standard_name": "latitude"}, "clon": {"standard_name": "longitude"}}
    field = np.random.default_rng(1).normal(280, 10, (LEVELS, len(lat))).astype("f4")
    space = parse_space({"remap": str(path)})
    known = {"clat": lat, "clon": lon}
    placement = place_space(space, ("lev", "cell"), field.shape, known, {}.__getitem__, told)
    local = placement.local((0, 0), field.shape)
    assert local is not None
    taken = []
    for _ in range(4):
        began = time.thread_time()
        local.values(Steps([field.reshape(-1)]))
        taken.append(time.thread_time() - began)
    return statistics.median(taken[1:])


def _run(folder: Path, cells: int) -> dict[str, float]:
    step_bytes = 4 * LEVELS * cells
    content = {
        "stream": "cells",
        "output": "out",
        "operators": {"ta": {"space": {"healpix": {"zoom": ZOOM, "weights": "weights.nc"}, "pyramid": True},
                             "operators": ["mean"], "windows": ["day", "run"]}},
        "nodes": {"capacity": f"{HELD * step_bytes * 1.05 / 2**20:.0f}MiB"},
        "workers": {"batch_steps": 2},
    }  # fmt: skip
    (folder / "analysis.yml").write_text(yaml.safe_dump(content))
    words = [sys.executable, "-m", "bbflow", "run", "analysis.yml", "--no-report", "--"]
    words += [sys.executable, str(Path(__file__).with_name("cells_writer.py")), str(cells), str(LEVELS), str(STEPS)]
    process = psutil.Popen(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    taken = list(samples(process))[-1][1]
    said, events = ended(process, "the run", folder)
    of = {kind: [event for event in events if event["event"] == kind] for kind in ("landed", "fold", "publish", "end")}
    written = json.loads(next(line for line in said.splitlines() if line.startswith("{")))
    return {
        "whole_s": of["publish"][-1]["ended_s"] - of["landed"][0]["began_s"],
        "first_s": of["fold"][0]["ended_s"] - of["landed"][0]["began_s"],
        "fold_s": sum(event["ended_s"] - event["started_s"] for event in of["fold"]),
        "publish_s": statistics.median(event["ended_s"] - event["started_s"] for event in of["publish"]),
        "waited_s": of["end"][0]["waited_s"],
        **written,
        **taken,
    }


def _rows(cost: dict[str, float], cells: int, links: int, alone_s: float) -> list[Row]:
    step, total = LEVELS * cells, LEVELS * cells * STEPS
    bytes_alone = 4 * step + 12 * links
    return [
        Row(
            f"{STEPS} steps of {LEVELS} levels of {cells} cells, from the first Put to the last result",
            cost["whole_s"],
            "s",
        ),
        Row("of that until the end of the first fold", cost["first_s"], "s"),
        Row("the same", total / cost["whole_s"] / 1e6, "million points/s", alone_s * STEPS / cost["whole_s"]),
        Row("the product alone, on one core (the ratio's 1)", step / alone_s / 1e6, "million points/s", 1.0),
        Row("the product alone: field and weights read once", bytes_alone / alone_s / 1e9, "GB/s"),
        Row("fold tasks together", cost["fold_s"], "s", alone_s * STEPS / cost["fold_s"]),
        Row("a publication, its pyramid not included", cost["publish_s"], "s"),
        Row("the writer: a copy of a step into the pool", cost["put_s"] / STEPS, "s"),
        Row("the writer has waited for room", cost["waited_s"], "s"),
        Row("CPU time of the writer", cost["cpu_s"], "s"),
        Row("CPU time of the analysis", cost["driver"], "s"),
        Row("CPU time of the agent", cost["agent"], "s"),
    ]
