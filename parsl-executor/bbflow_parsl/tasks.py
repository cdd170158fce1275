"""Which task a staged file belongs to: a look into Parsl's table of tasks."""

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from parsl.dataflow.dflow import DataFlowKernel
from parsl.dataflow.taskrecord import TaskRecord

from bbflow_parsl.futures import StagedFile


def task_of(future: StagedFile) -> TaskRecord:
    """Find the task that waits for a file.

    Parameters
    ----------
    future
        Parsl has added a callback to it, so its task is in the table.

    Raises
    ------
    LookupError
        If no task waits for it.
    """
    kernel: DataFlowKernel = future.dm.dfk
    while True:
        try:
            # The newest first: in almost all cases it is that one.
            for record in reversed(kernel.tasks.values()):
                if any(each is future for each in record["depends"]):
                    return record
        except RuntimeError:
            continue  # another thread changed the table meanwhile
        raise LookupError(f"no task of Parsl waits for {future.file_obj.url}")


def staged_files(record: TaskRecord) -> list[StagedFile]:
    """Return the files that a task waits for, each once."""
    found = {id(each): each for each in record["depends"] if isinstance(each, StagedFile)}
    return list(found.values())


def other_dependencies(record: TaskRecord, staged: Sequence[StagedFile]) -> list[Future[Any]]:
    """Return what else a task waits for: other tasks' futures, and the makers of its files."""
    makers = [each.maker for each in staged if each.maker is not None]
    return [*makers, *(each for each in record["depends"] if not isinstance(each, StagedFile))]
