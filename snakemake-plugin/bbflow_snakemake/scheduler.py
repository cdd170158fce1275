"""The scheduler plugin: jobs start in the order in which their inputs are fetched, once they have room."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from snakemake_interface_scheduler_plugins.base import SchedulerBase

from bbflow.host.waiting import until
from bbflow_snakemake.ahead import Ahead
from bbflow_snakemake.objects import StorageObject
from bbflow_snakemake.provider import BurstBufferStorage

ADMISSION_S = 2.0
"""How long we wait for the sizes of new jobs' inputs while others compute; they may hold their room."""
_POLL_S = 0.01
_WORKERS = ("_cores", "_nodes")
"""Resources that each running job has some of."""


@dataclass(eq=False, slots=True)
class _Coming:
    """A job whose inputs are fetched ahead."""

    job: Any
    order: int
    parts: list[tuple[Ahead, str]] = field(default_factory=list)
    """For each storage, the job's key in it."""

    @property
    def has_room(self) -> bool:
        return all(ahead.is_coming(key) or ahead.is_settled(key) for ahead, key in self.parts)

    @property
    def is_settled(self) -> bool:
        return all(ahead.is_settled(key) for ahead, key in self.parts)

    def final(self) -> None:
        for ahead, key in self.parts:
            ahead.final(key)


class Scheduler(SchedulerBase):
    """Selects jobs by priority, then in the order in which they became ready, and has their inputs fetched in it."""

    def __post_init__(self) -> None:
        self._coming: dict[Any, _Coming] = {}
        self._seen: dict[Any, int] = {}
        self._most: dict[str, int] = {}

    def select_jobs(
        self,
        selectable_jobs: Sequence[Any],
        remaining_jobs: Sequence[Any],
        available_resources: Mapping[str, int | str],
        input_sizes: Mapping[Any, int],
    ) -> Sequence[Any]:
        """Select jobs whose inputs are there; if none are, those whose inputs are on their way."""
        ready = self._in_order(selectable_jobs)
        is_idle = self._is_idle(available_resources)
        self._end({*selectable_jobs, *remaining_jobs}, is_idle)
        if self._retrieves_here():
            new = self._announce(ready, slots_of(remaining_jobs, available_resources))
            if new:
                _wait_for_room(new)
        found = list(fitting((job for job in ready if self._is_settled(job)), available_resources))
        if found:
            return found
        # They are waited for when they are retrieved. Snakemake asks again only when a job has ended, so no slot may be
        # left out; with nothing running, nothing is held, so the first at least can have room.
        coming = list(fitting((job for job in ready if self._has_room(job)), available_resources))
        return coming or list(fitting(ready if is_idle else (), available_resources))[:1]

    def _in_order(self, jobs: Iterable[Any]) -> list[Any]:
        """Sort jobs by priority, then by when they were seen first; those seen together by their outputs' names."""
        for job in sorted((job for job in jobs if job not in self._seen), key=_name_of):
            self._seen[job] = len(self._seen)
        return sorted(jobs, key=lambda job: (-job.priority, self._seen[job]))

    def _is_idle(self, available: Mapping[str, int | str]) -> bool:
        """Whether no job runs: all is free again that ever was."""
        now = {name: int(available[name]) for name in _WORKERS if name in available}
        self._most = {name: max(count, self._most.get(name, 0)) for name, count in now.items()}
        return now == self._most

    def _end(self, known: set[Any], is_idle: bool) -> None:
        """Release jobs that are finished; of those that have failed, once nothing runs any more."""
        for job in list(self._coming):
            if all(self.dag.finished(each) for each in single_jobs(job)) or (is_idle and job not in known):
                self._coming.pop(job).final()

    def _retrieves_here(self) -> bool:
        """Whether this process retrieves inputs: else jobs do, on their own hosts, or find them retrieved."""
        workflow = getattr(self.dag, "workflow", None)
        if workflow is None:
            return True
        if workflow.touch or workflow.dryrun or not workflow.is_main_process:
            return False
        shared = {usage.name for usage in workflow.storage_settings.shared_fs_usage}
        return workflow.local_exec or "STORAGE_LOCAL_COPIES" in shared

    def _announce(self, jobs: Iterable[Any], slots: int) -> list[_Coming]:
        """Order the inputs that aren't there yet."""
        new = []
        for job in jobs:
            if job in self._coming:
                continue
            by_provider: dict[BurstBufferStorage, dict[str, int]] = {}
            for each in (each for single in single_jobs(job) for each in stored_inputs(single)):
                ahead = each.provider.ahead
                path = each.local_path()
                size_bytes = each.provider.known.size_bytes(each.query)
                # a directory is copied when its job starts
                if size_bytes is not None and (not path.exists() or (ahead is not None and ahead.has(path))):
                    by_provider.setdefault(each.provider, {})[each.query] = size_bytes
            if by_provider:
                found = _Coming(job, self._seen[job])
                for provider, sizes in by_provider.items():
                    ahead = provider.fetch_ahead(slots)
                    found.parts.append((ahead, ahead.announce(sizes)))
                self._coming[job] = found
                new.append(found)
        return new

    def _is_settled(self, job: Any) -> bool:
        return job not in self._coming or self._coming[job].is_settled

    def _has_room(self, job: Any) -> bool:
        return job not in self._coming or self._coming[job].has_room


def _wait_for_room(coming: Sequence[_Coming]) -> None:
    until(lambda: any(each.has_room for each in coming), ADMISSION_S, _POLL_S)


def single_jobs(job: Any) -> Iterator[Any]:
    """Iterate over the jobs of a group, or the one job."""
    jobs = getattr(job, "jobs", None)
    yield from [job] if jobs is None else jobs() if callable(jobs) else jobs


def stored_inputs(job: Any) -> Iterator[StorageObject]:
    """Iterate over those inputs of a job that are ours, and that it wants to have retrieved."""
    for file in job.input:
        found = file.flags.get("storage_object")
        if isinstance(found, StorageObject) and found.retrieve:
            yield found


def slots_of(jobs: Sequence[Any], available: Mapping[str, int | str]) -> int:
    """Return how many of some jobs can run at once: as many as fit, each with the least cores that any has."""
    cores = [int(job.scheduler_resources.get("_cores", 1)) for job in jobs]
    most = int(available.get("_cores", 1)) // max(min(cores, default=1), 1)
    return max(min(most, int(available.get("_nodes", most)), len(jobs)), 1)


def fitting(jobs: Iterable[Any], available: Mapping[str, int | str]) -> Iterator[Any]:
    """Iterate over jobs that fit, together with those before them."""
    left = {name: count for name, count in available.items() if isinstance(count, int)}
    for job in jobs:
        wanted = {name: job.scheduler_resources.get(name, 0) for name in left}
        if all(count <= left[name] for name, count in wanted.items()):
            left = {name: left[name] - count for name, count in wanted.items()}
            yield job


def _name_of(job: Any) -> tuple[str, ...]:
    return tuple(str(file) for single in single_jobs(job) for file in single.output)
