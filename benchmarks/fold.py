"""Fold: million points a second on one core, against NumPy, CDO, Multio and xarray+flox on the same steps."""

import mmap
from collections.abc import Callable

import numpy as np

from bbflow.operators import StateLayout, fold_steps, parse_operators
from benchmarks import fold_cdo, fold_flox, fold_multio
from benchmarks.rates import one_core, rate
from benchmarks.rows import Row

SIDE, STEPS, BATCH = 512, 360, 24
"""Fifteen days of hours, a day at a time."""
FOUR = ("mean", "std", "min", "max")
EDGES = np.linspace(200.0, 330.0, 51)
PARTS = {
    "statistics": {"+".join(FOUR): list(FOUR), **{name: [name] for name in FOUR}},
    "percentiles": {
        "p90, error 1 % for 744 steps": [{"percentiles": {"q": 90, "error": 1, "steps": 744}}],
        "p90, error 1 % for 8784 steps": [{"percentiles": {"q": 90, "error": 1, "steps": 8784}}],
        "p10, p50, p90, error 1 % for 744 steps": [{"percentiles": {"q": [10, 50, 90], "error": 1, "steps": 744}}],
    },
    "histogram": {
        "50 bins": [{"histogram": {"bins": 50, "range": [200, 330]}}],
        "50 automatic bins": [{"histogram": {"bins": 50}}],
    },
}


def _folded(fields: np.ndarray, names: list[object]) -> Callable[[], object]:
    """Return the fold of all steps, from one state into another, and the results."""
    blocks = list(fields.reshape(STEPS, -1))
    operators = parse_operators(names)
    layout = StateLayout.of(operators, dtype=fields.dtype, points=SIDE * SIDE)
    states = [mmap.mmap(-1, layout.nbytes), mmap.mmap(-1, layout.nbytes)]

    def fold() -> None:
        source = None
        for number, start in enumerate(range(0, STEPS, BATCH)):
            target = states[number % 2]
            fold_steps(layout, source, target, blocks[start : start + BATCH])
            source = target
        for operator in operators:
            operator.finalize(layout, source)

    return fold


def _maximum(fields: np.ndarray) -> None:
    largest = fields[0].copy()
    for field in fields[1:]:
        np.maximum(field, largest, out=largest)


def _numpy_four(fields: np.ndarray) -> None:
    total, squares = np.zeros((SIDE, SIDE)), np.zeros((SIDE, SIDE))
    least, largest = fields[0].copy(), fields[0].copy()
    for field in fields:
        total += field
        squares += np.square(field, dtype="f8")
        np.minimum(field, least, out=least)
        np.maximum(field, largest, out=largest)


def _numpy(fields: np.ndarray, repeat: int) -> dict[str, dict[str, float]]:
    def partition() -> None:
        np.partition(fields, STEPS * 9 // 10, axis=0)

    return {
        "statistics": {
            "NumPy: one np.maximum": rate(lambda: _maximum(fields), fields.size, repeat),
            "NumPy: mean+std+min+max": rate(lambda: _numpy_four(fields), fields.size, repeat),
        },
        "percentiles": {"NumPy: np.partition of all steps at once": rate(partition, fields.size, 1)},
    }


def measure(*, quick: bool) -> list[Row]:
    """Measure; ratios are to the fastest of the other tools in the same part, NumPy by hand not counted."""
    repeat = 3 if quick else 5
    fields = np.random.default_rng(0).standard_normal((STEPS, SIDE, SIDE), "f4") * np.float32(10) + np.float32(280)
    with one_core():
        others = [module.measure(fields, EDGES, repeat) for module in (fold_cdo, fold_multio, fold_flox)]
        own = {
            part: {f"bbflow: {name}": rate(_folded(fields, names), fields.size, repeat) for name, names in sets.items()}
            for part, sets in PARTS.items()
        }
        numpy = _numpy(fields, repeat)
    rows = []
    for part in PARTS:
        tools = {name: value for other in others for name, value in other.get(part, {}).items()}
        base = max(tools.values()) if tools else None
        rates = own[part] | numpy.get(part, {}) | tools
        rows += [
            Row(f"{part}, {name}", value, "Mpoints/s", None if base is None else value / base)
            for name, value in rates.items()
        ]
    return rows
