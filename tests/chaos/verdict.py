"""What a run that was harmed must have kept: the simulation's exit code, right results, and every committed step."""

import re
import signal
import subprocess
import sys
from collections.abc import Callable, Collection
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import xarray as xr

sys.path.insert(0, str(Path(__file__).parents[1] / "transit"))

import mainjob

from chaos.runs import FLAGS, PATIENCE_S, STEPS, Run

means_in_space = mainjob.means_in_space
INCOMPLETE, INTERRUPTED = 3, 130
HELD = "STEPS ARE STILL ON THE BB NODES"
Judge = Callable[[Run, int, Any], str]
"""Gets a run that has ended, its exit code and the truth; says what is left, or raises `AssertionError`."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a run ended."""

    outcome: str
    """complete, incomplete (marked, and all steps accounted for), or what is wrong."""
    wrong: bool
    """Whether it must not be."""


def judged(judge: Judge, run: Run, code: int | None, truth: Any) -> Verdict:
    """Compare what a run has left with the truth.

    Parameters
    ----------
    judge
        Says what must be left.
    run
        It has ended.
    code
        Its exit code; None if it was killed because it didn't end.
    truth
        The simulation's fields by BP5.
    """
    try:
        assert code is not None, "the run hangs"
        assert "Traceback" not in run.said, "a raw traceback is said"
        return Verdict(judge(run, code, truth), wrong=False)
    except Exception as error:  # what can't even be looked at is wrong too
        return Verdict(" ".join(str(error).split())[:200] or type(error).__name__, wrong=True)


def unharmed(run: Run, code: int, truth: Any) -> str:
    """The simulation ended well; results are right, or marked, and every step is somewhere."""
    assert run.simulation_code == 0, f"the simulation ended with {run.simulation_code}"
    assert code in (0, INCOMPLETE), f"exit code {code} in place of the simulation's 0"
    if code == 0:
        results = mainjob.assert_equals_oracle(run.output, truth)
        assert results.attrs["bbflow_status"] == "complete", "the status isn't complete"
        return "complete"
    folded, rescued = folded_steps(run, truth), rescued_steps(run.output / "rescued", truth)
    assert_none_is_lost({*range(folded), *rescued})
    return f"incomplete, {folded} folded, {len(rescued)} rescued"


def refused(run: Run, code: int, truth: Any) -> str:
    """The run was not started."""
    assert code not in (0, INCOMPLETE), f"exit code {code} of a run that could not start"
    assert run.simulation_code is None, "the simulation was started"
    return "refused"


def hurt(run: Run, code: int, truth: Any) -> str:
    """The simulation was killed: what it had committed is published, as incomplete."""
    if run.simulation_code == 0:  # it had ended before the kill
        return unharmed(run, code, truth)
    assert code == run.simulation_code != 0, f"exit code {code} in place of the simulation's {run.simulation_code}"
    return f"the simulation's {code}, {_published(run, truth)} folded"


def interrupted(run: Run, code: int, truth: Any) -> str:
    """The run was asked to end: what was committed is published, and nothing is left."""
    assert code == INTERRUPTED, f"exit code {code} after SIGTERM"
    assert_nothing_is_left(run)
    return f"interrupted, {_published(run, truth)} folded"


def killed(run: Run, code: int, truth: Any) -> str:
    """All that the run had started ends with it, and leaves no memory taken."""
    assert code == -signal.SIGKILL, f"exit code {code} after SIGKILL"
    assert_nothing_is_left(run)
    return "gone"


def lacking(run: Run, code: int, truth: Any) -> str:
    """A host was lost: its points lack the steps that the results say, and no others."""
    assert (run.simulation_code, code) == (0, INCOMPLETE), f"exit code {code}, the simulation's {run.simulation_code}"
    results = xr.open_zarr(run.output / "results.zarr").load()
    assert results.attrs["bbflow_status"] == "incomplete", "the results aren't marked"
    for lost in (text for text in results.attrs["bbflow_lost"] if text.startswith("tas[")):
        mainjob.assert_lacks_what_is_said(results, truth, lost)
    return "incomplete"


def held(run: Run, code: int, truth: Any) -> str:
    """Nothing could be written: the steps are still on the nodes, and the commands that are said get them."""
    assert (run.simulation_code, code) == (0, INCOMPLETE), f"exit code {code}, the simulation's {run.simulation_code}"
    assert HELD in run.said, "it isn't said where the steps are"
    obey(run)
    folded, rescued = folded_steps(run, truth), rescued_steps(run.folder / "rescued", truth)
    assert_none_is_lost({*range(folded), *rescued})
    return f"held, {folded} folded, {len(rescued)} rescued by hand"


def obey(run: Run) -> None:
    """Run the commands that a run has said to get the steps that the nodes hold."""
    words = [line.removeprefix("bbflow: ").split() for line in run.said.partition(HELD)[2].splitlines()[1:]]
    commands = [line for line in words if line[:1] == ["bbflow"]]
    with ExitStack() as stack:
        for command in commands:
            beside = command[-1] == "&"
            process = subprocess.Popen([sys.executable, "-m", *command[: -1 if beside else None]], cwd=run.folder)
            if beside:
                stack.callback(process.wait)
                stack.callback(process.terminate)
            else:
                assert process.wait(PATIENCE_S) in (0, INCOMPLETE), f"{command} ended with {process.returncode}"


def folded_steps(run: Run, truth: Any) -> int:
    """Return how many steps are in results that are marked as incomplete; their values must be right."""
    results = run.output / "results.zarr"
    if not results.exists():
        return 0
    published = xr.open_zarr(results).load()
    assert published.attrs["bbflow_status"] == "incomplete", "the results aren't marked"
    if "steps_run" not in published or not published.sizes["time_run"]:
        return 0
    said = [re.match(r"all points lack the steps from (\d+) to (\d+)", text) for text in _lost(published)]
    lacking = {number for found in said if found for number in range(int(found[1]), int(found[2]) + 1)}
    folded = int(published.steps_run.values[-1]) + len(lacking)
    there = [number for number in range(folded) if number not in lacking]
    mainjob.assert_equals_oracle(run.output, truth.isel(time=there))
    return folded


def _lost(published: xr.Dataset) -> list[str]:
    return list(np.atleast_1d(published.attrs.get("bbflow_lost", ())))


def rescued_steps(directory: Path, truth: Any) -> list[int]:
    """Return the steps that were rescued; their values must be right."""
    if not (directory / "raw.zarr").exists():
        return []
    raw = xr.open_zarr(directory / "raw.zarr").load()
    numbers = raw.bbflow_step.values
    assert (raw.tas.values == truth.tas.values[numbers].astype("f4")).all(), "rescued values are wrong"
    return [int(number) for number in numbers]


def assert_none_is_lost(steps: Collection[int]) -> None:
    """See that each step is somewhere."""
    lost = sorted(set(range(STEPS)) - set(steps))
    assert not lost, f"{len(lost)} steps are nowhere, from {lost[0]} on"


def assert_nothing_is_left(run: Run) -> None:
    """See that all processes of a run have ended, and its nodes' directories are gone."""
    processes, _ = run.noted
    _, alive = psutil.wait_procs(processes, timeout=PATIENCE_S)
    assert not alive, f"{len(alive)} processes are left"
    left = [place for place in run.node_places if place.exists()]
    assert not left, f"{left} is left"


def _published(run: Run, truth: Any) -> int:
    folded = folded_steps(run, truth)
    _, before = run.noted
    assert folded >= before > 0, f"{folded} steps are published, but {before} were folded before"
    return folded


def load(path: Path) -> Any:
    """Load the truth, in float64 with NaN where values are missing."""
    return mainjob.with_means_in_space(mainjob.load_oracle(path, str(FLAGS["calendar"])))
