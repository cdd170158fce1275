"""The files of partial states on the nodes: more are made before they are needed, and old ones are removed."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from bbflow.transit.clusters.cluster import SubmittedTask, Work, take
from bbflow.transit.driver.stage import Running
from bbflow.transit.folding.bookkeeping import Folding
from bbflow.transit.folding.kernel_table import ready_files
from bbflow.transit.folding.plans import FoldPlan
from bbflow.transit.folding.work import LaneWork
from bbflow.transit.states.files import make_ready, remove_stale, remove_states
from bbflow.transit.states.tables import living_files


class StateFiles:
    """Sees to the files.

    Parameters
    ----------
    run
        What holds for all stages.
    folding
        Which states count.
    """

    def __init__(self, run: Running, folding: Folding) -> None:
        self._run, self._folding = run, folding
        self._stale: frozenset[str] | None = None if len(folding.states) else frozenset()
        """Files of earlier analyses in which states count."""
        self._living: WeakKeyDictionary[FoldPlan, Mapping[str, int]] = WeakKeyDictionary()
        """Plan to how many files had states at most when it was seen to it that there are enough."""
        self._making: list[SubmittedTask[None]] = []

    def make(self, works: Iterable[tuple[LaneWork, FoldPlan, str]], more: int) -> None:
        """Order the files that lanes will need, made beside their folds.

        Parameters
        ----------
        works
            Each lane's work, its plan, and its host.
        more
            How many batches are folded beside what is published.
        """
        needs: list[Work] = []
        for work, plan, host in works:
            if plan.lane and self._needs_more(plan, living := living_files(work.states), host):
                needs.append(((plan.lane, ready_files(plan, living, more)), host))
        self._making = [item for item in self._making if not item.done()]
        self._making += self._run.cluster.submit_all(make_ready, needs, lambda: None, beside=True, calls=True)

    def _needs_more(self, plan: FoldPlan, living: Mapping[str, int], host: str) -> bool:
        """Whether a lane will need more files of the one worker process of a host than were ordered before.

        Of several processes it isn't known which one will fold what: each makes what it needs when it does.
        """
        known = self._living.get(plan)
        most = Counter(known)
        most |= Counter(living)
        self._living[plan] = most
        return known != most and self._run.cluster.processes(host) == 1

    def remove_stale(self) -> None:
        """Remove what earlier analyses have left of states, as soon as no checkpoint names it any more."""
        if self._stale == frozenset():  # and there will be none: new states are in files of its own
            return
        lanes, states = self._folding.lanes, self._folding.states
        counted = frozenset(path for path in states.files if not lanes.is_own(path))
        if counted != self._stale:
            self._on_nodes(remove_stale, lanes.run, lanes.epoch, counted)
            self._stale = counted

    def remove(self) -> None:
        """Remove all of the run's."""
        for making in self._making:
            making.exception()  # waits: what it is still about to make would stay
        self._on_nodes(remove_states, self._folding.lanes.run)

    def _on_nodes(self, function: Callable[..., None], *arguments: Any) -> None:
        """Call a function of each node's directory of states and some arguments, where the states lie."""
        works = [((node.state_directory, *arguments), node.host) for node in self._run.nodes.values()]
        take(self._run.cluster.submit_all(function, works, self._run.wake))
