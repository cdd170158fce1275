"""Steps that note what they did, so that a run's own events tell how many nodes the next one should rent."""

import functools
from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import Any, TypeVar

from bbflow.events import noted_task

Step = TypeVar("Step", bound=Callable[..., Any])


def noted(step: Step) -> Step:
    """Add ``events``, the directory of the events, to what a step takes by itself."""
    form = signature(step)

    @functools.wraps(step)
    def run(*arguments: Any, events: str | None = None, **options: Any) -> Any:
        if events is None:
            return step(*arguments, **options)
        files = form.bind(*arguments, **options).arguments
        with noted_task(Path(events), step.__name__, files["inputs"], files.get("outputs", ())):
            return step(*arguments, **options)

    return run  # type: ignore[return-value]
