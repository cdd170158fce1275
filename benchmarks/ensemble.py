"""Folding members into a moment's file, against the kernel alone, iterative-stats and xarray on the same fields."""

import logging
import tempfile
from pathlib import Path

import numpy as np
import xarray as xr
from iterative_stats.iterative_extrema import IterativeExtrema  # type: ignore[import-untyped]
from iterative_stats.iterative_variance import IterativeVariance  # type: ignore[import-untyped]

from bbflow.ensemble.common_grid import CommonGrid, GridField
from bbflow.ensemble.ensemble_config import parse_ensemble
from bbflow.ensemble.folding import Contribution, fold, states_of
from bbflow.ensemble.moment_files import Ledger, MomentFiles
from bbflow.operators.fold import fold_steps
from benchmarks.rates import median_s
from benchmarks.rows import Row

POINTS, FEWER = 1 << 20, 1 << 16
MEMBERS = 20
"""In one turn: a wave whose members are in step."""
TIMES = 7
RESULT = "tas_step_max"


def measure(*, quick: bool) -> list[Row]:
    """Measure mean, spread and extremes; ratios are to the kernel alone."""
    points = FEWER if quick else POINTS
    logging.disable(logging.DEBUG)  # iterative-stats writes each field into its log
    fields = [np.random.default_rng(at).random(points, "f4") for at in range(MEMBERS)]
    rows = []
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        content = {
            "stream": "model",
            "output": f"{folder}/out",
            "operators": {"tas": ["mean", "std", "min", "max"]},
            "ensemble": {"members": 1000},
        }
        analysis = parse_ensemble(content)
        grid = CommonGrid(
            member="1",
            units="1",
            calendar="none",
            fields={RESULT: GridField(dims=("cell",), shape=(points,), dtype="float32", attributes={})},
            coordinates={},
        )
        (states,) = states_of(analysis, grid).values()
        layout = states.fields[0].layout
        target = bytearray(layout.nbytes)
        layout.clear(target)
        kernel = median_s(lambda: fold_steps(layout, target, target, fields), TIMES)
        for members in (MEMBERS, 1):
            own, moments, at = fields[:members], MomentFiles(Path(folder) / "fast", 1 << 34, Path(folder) / "slow"), [0]

            def one_turn(moments: MomentFiles = moments, own: list[np.ndarray] = own, at: list[int] = at) -> None:
                at[0] += 1
                ledger = Ledger(window="step", begin=0, end=0, numbers=(0.0, 0.0, 0.0))
                fold(moments, states, ledger, [Contribution(str(n), at[0], {RESULT: own[n]}) for n in range(len(own))])

            took = median_s(one_turn, TIMES) / members * MEMBERS
            rows.append((f"into a moment's file, {members} members at a time", took))
            moments.clear()

    def iterative() -> None:
        variance, extrema = IterativeVariance(points), IterativeExtrema(points)
        for own in fields:
            variance.increment(own)
            extrema.increment(own)

    def with_xarray() -> None:
        whole = xr.DataArray(np.stack(fields), dims=("realization", "cell"))
        for name in ("mean", "min", "max"):
            getattr(whole, name)("realization")
        whole.std("realization", ddof=1)

    rows += [("iterative-stats (Melissa), one by one", median_s(iterative, TIMES))]
    rows += [("xarray, all members in memory", median_s(with_xarray, TIMES))]
    total = MEMBERS * points / 1e6
    first = Row(f"kernel alone, {MEMBERS} members at a time (the ratio's 1)", total / kernel, "million values/s", 1.0)
    return [first, *(Row(name, total / took, "million values/s", kernel / took) for name, took in rows)]
