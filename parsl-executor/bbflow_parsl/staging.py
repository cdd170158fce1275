"""The staging provider: Parsl asks it for files, it plans their way over the burst buffer and returns at once."""

import logging
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from typing import Any

from parsl.app.errors import RemoteExceptionWrapper
from parsl.app.futures import DataFuture
from parsl.data_provider.data_manager import DataManager
from parsl.data_provider.files import File

from bbflow.staging.stager import Stager
from bbflow.stores.urls import file_name
from bbflow_parsl.futures import StagedFile, settle, when_all_done
from bbflow_parsl.memo import mark_residency
from bbflow_parsl.outputs import Outputs
from bbflow_parsl.places import Place
from bbflow_parsl.planning import TaskStaging, Version
from bbflow_parsl.provider import BurstBufferProvider
from bbflow_parsl.rundirs import RunDirectory
from bbflow_parsl.settings import BurstBufferSettings, absolute
from bbflow_parsl.tasks import other_dependencies, staged_files, task_of

logger = logging.getLogger(__name__)


class BurstBufferStaging(BurstBufferProvider):
    """Stages files over a burst buffer that all workers see: it plans their ways itself.

    Parameters
    ----------
    burst_buffer
        Which files, and how.
    """

    def __init__(self, burst_buffer: BurstBufferSettings) -> None:
        super().__init__(burst_buffer)
        self._run: RunDirectory | None = None
        self._stager: Stager | None = None
        self._outputs: Outputs | None = None
        self._places: dict[str, Place] = {}
        self._versions: dict[str, Version | None] = {}

    def start(self, label: str, slots: int) -> None:
        """Make a directory for this run, and begin to stage into it."""
        settings = self.burst_buffer
        assert settings.shared_directory is not None
        self._run = RunDirectory(settings.shared_directory, label)
        self._stager = Stager(
            self._run.path / "inputs",
            settings.inputs_bytes,
            slots,
            fetchers=settings.fetchers,
            lookahead=settings.lookahead,
            policy=settings.delay_policy,
            phases=settings.phase_source,
            **settings.options,
        )
        self._outputs = Outputs(self._run.path / "outputs", settings.outputs_bytes, self._stager.stage_out)

    def close(self) -> None:
        """Wait until all results are in their own places, and remove the run's directory."""
        run, self._run = self._run, None
        if run is None:
            return
        try:
            # First: results are copied by the stager's threads.
            if self._outputs is not None:
                self._outputs.wait()
            if self._stager is not None:
                self._stager.close()
        finally:
            run.remove()

    @property
    def outputs(self) -> Outputs:
        """What tasks make on the burst buffer.

        Raises
        ------
        RuntimeError
            If the executor isn't started.
        """
        if self._outputs is None:
            raise RuntimeError("the burst buffer's executor is not started: load the configuration with parsl.load")
        return self._outputs

    def can_stage_in(self, file: File) -> bool:
        """Whether an input is this provider's."""
        return absolute(file.url) in self.outputs or self.burst_buffer.stages_in(file.url)

    def stage_in(self, dm: DataManager, executor: str, file: File, parent_fut: Future[Any] | None) -> DataFuture:
        """Return a future for an input; it is planned when Parsl has asked for all inputs of the task."""
        return StagedFile(dm, file, parent_fut, self._plan)

    def stage_out(self, dm: DataManager, executor: str, file: File, app_fu: Future[Any]) -> Future[Any] | None:
        """Choose where a task writes an output; return a future if it is to be in its own place afterwards."""
        is_result = self.burst_buffer.stages_out(file.url)
        # The memoiser knows a task by where its files lie: one that it is to find again gets the same place.
        reuse = bool(app_fu.task_record["memoize"])  # type: ignore[attr-defined]
        url = absolute(file.url)
        place = self.outputs.place(url, file_name(url), app_fu, is_result, reuse)
        file.local_path = str(place.path)
        if not is_result:
            mark_residency(file, file.local_path)
        self._places[file.local_path] = place
        app_fu.add_done_callback(lambda _: self._places.pop(str(place.path), None))
        return place.staged_out if is_result else None

    def launch(self, outputs: Iterable[Any], streams: Iterable[Any]) -> list[Place]:
        """Direct a task that starts now to write elsewhere what has no room on the burst buffer."""
        results = []
        streams = list(streams)
        for file in (*outputs, *streams):
            place = self._places.get(file.local_path) if isinstance(file, File) and file.local_path else None
            if place is None:
                continue
            place.is_stream = any(file is stream for stream in streams)
            if not self.outputs.reserve(place, self.burst_buffer.expected_bytes(place.url)):
                file.local_path = place.url if {"#", "?"} & set(place.url) else None
            elif place.is_result:
                results.append(place)
        return results

    def after_delivery(self, ran: Future[Any], results: Sequence[Place]) -> Future[Any]:
        """Return a future that is done when a task has run and its results are in their own places."""
        if not results:
            return ran
        delivered: Future[Any] = Future()
        # Parsl's log and monitoring know a task by `parsl_executor_task_id`, which an executor sets on its own future.
        vars(delivered).update({name: value for name, value in vars(ran).items() if name.startswith("parsl_")})
        ran.add_done_callback(lambda _: self._deliver(ran, results, delivered))
        return delivered

    def _deliver(self, ran: Future[Any], results: Sequence[Place], delivered: Future[Any]) -> None:
        failed = ran.exception() is not None or isinstance(ran.result(), RemoteExceptionWrapper)
        # What a failed task has printed says why it failed.
        copies = [self.outputs.deliver(place) for place in results if place.is_stream or not failed]
        when_all_done(copies, lambda: settle(delivered, [*copies, ran]))

    def publish(self, file: File | DataFuture) -> Future[None]:
        """Stage out a file that stays on the burst buffer otherwise; a LookupError if no task makes it there."""
        url = file.file_obj.url if isinstance(file, DataFuture) else file.url
        return self.outputs.publish(absolute(url))

    def _plan(self, future: StagedFile) -> None:
        """Plan the task of a file with all its files, if that hasn't been done for another of them."""
        if future.is_planned:
            return
        files = [future]
        try:
            record = task_of(future)
            files = staged_files(record)
            for file in files:
                file.is_planned = True
            assert self._stager is not None
            others = other_dependencies(record, files)
            task = TaskStaging(f"parsl-{record['id']}", files, others, self._stager, self.outputs, self._versions)
            task.start(record["app_fu"])
        except Exception as error:
            # Parsl ignores what a callback raises, and would wait forever.
            logger.exception("%s can't be planned", future.file_obj.url)
            for file in files:
                if not file.arrival.done():
                    file.arrival.set_exception(error)
