"""A user's function that sees the ensemble as it is, and may say that it is enough."""

import pickle
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bbflow.errors import ConfigError, OperatorError, one_line
from bbflow.functions import Answer
from bbflow.operators.own import isolation
from bbflow.operators.own.origin import Origin


@dataclass(frozen=True, slots=True)
class EnsembleDecision:
    """What a function wants."""

    spare: tuple[str, ...] = ()
    """Members that need not start."""
    stop: str | None = None
    """Why all that run are to end, and the others not to start; None if they aren't."""


class Deciding:
    """Calls a function in a process of its own, one call at a time, while the analysis continues.

    Parameters
    ----------
    origin
        The function.
    store
        ``ensemble.zarr``, which it sees.
    say
        Gets what fails in it; it isn't called any more then.
    """

    def __init__(self, origin: Origin, store: Path, say: Callable[[str], None]) -> None:
        self._origin, self._store, self._say = origin, store, say
        self._thread: threading.Thread | None = None
        self._found: EnsembleDecision | None = None
        self._failed = False
        self._resources = ExitStack()
        self._resources.enter_context(isolation.in_use())

    @property
    def is_busy(self) -> bool:
        """Whether it is called now, or its last answer wasn't taken."""
        return self._thread is not None

    def ask(self, standings: Mapping[str, str]) -> None:
        """Begin a call.

        Parameters
        ----------
        standings
            Member's name to how it is.
        """
        if not self._failed:
            self._thread = threading.Thread(target=self._call, args=(dict(standings),), name="decide", daemon=True)
            self._thread.start()

    def answer(self) -> EnsembleDecision | None:
        """Return the answer of the last call, once; None if there is none yet, or it has nothing to say."""
        if self._thread is None or self._thread.is_alive():
            return None
        self._thread, found, self._found = None, self._found, None
        return found

    def close(self) -> None:
        """End the function's process, unless it is called now."""
        self._resources.close()

    def _call(self, standings: dict[str, str]) -> None:
        try:
            self._found = isolation.call(
                self._origin, pickle.dumps(decided_by), "", self._origin, self._store, standings
            )
        except (OperatorError, ConfigError) as error:
            self._failed = True
            self._say(f"{self._origin} failed, and isn't called any more: {error}")


def decided_by(origin: Origin, store: Path, standings: Mapping[str, str]) -> EnsembleDecision | None:
    """Call a function, in the process that the user's code has for itself.

    It gets ``ensemble.zarr`` as a Dataset, with the coordinate ``standing`` along ``realization``, members' names.

    Raises
    ------
    OperatorError
        If it gives something else than None or an `Answer`, or names members that there aren't.
    """
    import xarray as xr  # late: the analysis needs none of it

    from bbflow.transit.output.decoding import decoded

    names = list(standings)
    with xr.open_zarr(store, decode_cf=False, chunks=None) as raw:  # lazy, but of NumPy's arrays
        found = decoded(raw)
        shown = found.assign_coords(realization=names, standing=("realization", [standings[name] for name in names]))
        answer: Any = origin.load()(shown)
    if answer is None:
        return None
    if not isinstance(answer, Answer):
        raise OperatorError(f"it gave {type(answer).__name__}, not None or an Answer")
    spare = tuple(str(name) for name in answer.spare)
    if unknown := sorted({*spare} - {*names}):
        raise OperatorError(f"it named a member {unknown[0]!r} that there isn't")
    return EnsembleDecision(spare, None if answer.stop in (None, False, "") else one_line(str(answer.stop)))
