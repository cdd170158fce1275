"""What a run that was harmed must have kept: the simulation's exit code, right results, and every committed step."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xarray as xr

sys.path.insert(0, str(Path(__file__).parents[1] / "transit"))

import mainjob

from chaos.runs import FLAGS, STEPS, Run

INCOMPLETE = 3


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a run ended."""

    outcome: str
    """complete, incomplete (marked, and all steps accounted for), or what is wrong."""
    wrong: bool
    """Whether it must not be."""


def judge(run: Run, code: int | None, truth: Any, *, hurts: bool = False, refuses: bool = False) -> Verdict:
    """Compare what a run has left with the truth.

    Parameters
    ----------
    run
        It has ended.
    code
        Its exit code.
    truth
        The simulation's fields by BP5.
    hurts
        Whether the simulation itself was meant to be hurt.
    refuses
        Whether the run was meant not to start.
    """
    try:
        if refuses:
            return Verdict(_refused(run, code), wrong=False)
        return Verdict(_judge(run, code, truth, hurts=hurts), wrong=False)
    except AssertionError as error:
        return Verdict(" ".join(str(error).split())[:200] or "an assertion failed", wrong=True)


def _judge(run: Run, code: int | None, truth: Any, *, hurts: bool) -> str:
    assert code is not None, "the run hangs"
    assert "Traceback" not in run.said, "a raw traceback is said"
    if not hurts:
        assert run.simulation_code == 0, f"the simulation ended with {run.simulation_code}"
        assert code in (0, INCOMPLETE), f"exit code {code} in place of the simulation's 0"
    if code == 0:
        results = mainjob.assert_equals_oracle(run.output, truth)
        assert results.attrs["bbflow_status"] == "complete", "the status isn't complete"
        return "complete"
    return _incomplete(run, truth)


def _refused(run: Run, code: int | None) -> str:
    assert code not in (None, 0, INCOMPLETE), f"exit code {code} of a run that could not start"
    assert run.simulation_code is None, "the simulation was started"
    assert "Traceback" not in run.said, "a raw traceback is said"
    return "refused"


def _incomplete(run: Run, truth: Any) -> str:
    results = run.output / "results.zarr"
    folded = 0
    if results.exists():
        published = xr.open_zarr(results).load()
        assert published.attrs["bbflow_status"] == "incomplete", "the results aren't marked"
        if "steps_run" in published and published.sizes["time_run"]:
            folded = int(published.steps_run.values[-1])
            mainjob.assert_equals_oracle(run.output, truth.isel(time=slice(folded)))
    rescued = run.output / "rescued" / "raw.zarr"
    steps = set(range(folded))
    if rescued.exists():
        raw = xr.open_zarr(rescued).load()
        numbers = raw.bbflow_step.values
        assert (raw.tas.values == truth.tas.values[numbers].astype("f4")).all(), "rescued values are wrong"
        steps |= set(numbers.tolist())
    lost = sorted(set(range(STEPS)) - steps)
    assert not lost or "STILL ON THE BB NODES" in run.said, f"{len(lost)} steps are nowhere, from {lost[0]} on"
    return f"incomplete, {folded} folded, {len(steps) - folded} rescued"


def load(path: Path) -> Any:
    """Load the truth, in float64 with NaN where values are missing."""
    return mainjob.load_oracle(path, str(FLAGS["calendar"]))
