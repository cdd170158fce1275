"""Levels: how fast columns are brought to other levels, against copying the field."""

from collections.abc import Callable

import numpy as np

from bbflow.operators.space import parse_space
from bbflow.operators.space.regridding import place_space
from bbflow.operators.steps import Array, Steps
from benchmarks.rates import rate
from benchmarks.rows import Row

LEVELS, COLUMNS, FEWER, TIMES = 30, 1 << 20, 1 << 17, 9
TARGETS = [1000, 2000, 5000, 10000, 20000, 30000, 50000, 70000, 85000, 92500]
HYBRID = {"a": "a", "b": "b", "surface": "ps"}
A, B = np.linspace(100.0, 0, LEVELS), np.linspace(0, 1, LEVELS) ** 2


def _interpolation(field: Array, ps: Array, **said: object) -> Callable[[], object]:
    space = parse_space({"levels": {"to": TARGETS, **said}})
    placement = place_space(
        space, ("lev", "cell"), field.shape, {}, {"a": A, "b": B}.__getitem__, {"lev": {"positive": "down"}}
    )
    local = placement.local((0, 0), field.shape)
    assert local is not None
    assert local.column is not None
    column = local.column
    pressure = (A[:, np.newaxis] + B[:, np.newaxis] * ps).astype(field.dtype)
    own = {"ps": Steps([ps]), "p": Steps([pressure.reshape(-1)])}
    steps = Steps([field.reshape(-1)])
    return lambda: column.apply(steps, own)


def measure(*, quick: bool) -> list[Row]:
    """Measure; ratios are to a copy of the field."""
    columns, rows = FEWER if quick else COLUMNS, []
    for dtype in ("f4", "f8"):
        field = np.random.default_rng(1).random((LEVELS, columns), dtype)
        ps = (98000 + 3000 * np.sin(np.arange(columns) / 500)).astype(dtype)
        copy = rate(field.copy, field.nbytes, TIMES)
        ways = {
            "hybrid coefficients": _interpolation(field, ps, pressure=HYBRID),
            "a pressure of each point": _interpolation(field, ps, pressure={"field": "p", "surface": "ps"}),
            "hybrid coefficients, in log p": _interpolation(field, ps, pressure=HYBRID, log=True),
        }
        rows.append(Row(f"{dtype}: copy of the field (the ratio's 1)", copy / 1e3, "GB/s", 1.0))
        for name, work in ways.items():
            own = rate(work, field.nbytes, TIMES)
            rows.append(Row(f"{dtype}: {len(TARGETS)} of {LEVELS} levels by {name}", own / 1e3, "GB/s", own / copy))
    return rows
