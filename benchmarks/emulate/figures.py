"""What a run's events and the samples of its driver tell together."""

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.emulate.bed import Sample


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one size."""

    first_cpu_s: float
    """CPU time of the driver until the first batch was folded: what is derived from the layout once is in it."""
    batch_cpu_s: float
    """CPU time of the median batch beside which nothing was published."""
    step_cpu_s: float
    """CPU time from the end of the first batch to that of the last, publications included, for each step."""
    publish_s: float
    """How long the median publication took."""
    wait_s: float
    """From a step's last commit to the end of its fold, the median."""
    longest_wait_s: float
    """The longest of these of the batches of `batch_cpu_s`."""
    memory_bytes: int
    """The most that the driver had."""


def figures_of(output: Path, samples: Sequence[Sample]) -> Figures:
    """Put them together.

    Parameters
    ----------
    output
        Of the run.
    samples
        What its driver had used, again and again.
    """
    events = [json.loads(line) for line in (output / "events.jsonl").read_text().splitlines()]
    folds, published, landed = (
        [event for event in events if event["event"] == name] for name in ("fold", "publish", "landed")
    )
    committed_s = {event["step"]: event["committed_s"] for event in landed}
    ends_s = [event["ended_s"] for event in folds]
    used = np.diff([0.0, *_cpu_s(samples, ends_s)])
    begins_s = [0.0, *ends_s[:-1]]
    beside = [
        any(_meet(begin_s, end_s, item) for item in published) for begin_s, end_s in zip(begins_s, ends_s, strict=True)
    ]
    quiet = [at for at in range(1, len(folds)) if not beside[at]] or list(range(1, len(folds)))
    waits = {at: [folds[at]["ended_s"] - committed_s[step] for step in _steps(folds[at])] for at in range(len(folds))}
    steps = folds[-1]["last_step"] - folds[0]["last_step"]
    days = [item for item in published if item["window"] == "day"]
    return Figures(
        float(used[0]),
        statistics.median(used[at] for at in quiet),
        float(sum(used[1:])) / steps,
        statistics.median(item["ended_s"] - item["started_s"] for item in days),
        statistics.median(wait for own in waits.values() for wait in own),
        max(wait for at in quiet for wait in waits[at]),
        max(sample.memory_bytes for sample in samples),
    )


def _cpu_s(samples: Sequence[Sample], at_s: Sequence[float]) -> np.ndarray:
    return np.interp(at_s, [sample.at_s for sample in samples], [sample.cpu_s for sample in samples])


def _meet(begin_s: float, end_s: float, event: dict[str, Any]) -> bool:
    return bool(event["started_s"] < end_s and begin_s < event["ended_s"])


def _steps(fold: dict[str, Any]) -> range:
    return range(fold["first_step"], fold["last_step"] + 1)
