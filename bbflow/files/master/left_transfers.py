"""What IOnodes still do to objects for a master before this one: nothing else may touch these meanwhile."""

from collections.abc import Callable, Mapping
from functools import partial

from bbflow.files.commands import CommandAnswer
from bbflow.files.master.core import Core
from bbflow.files.master.records import ObjectTransfer, TransferredRecord


class InheritedFiles:
    """Transfers whose answer the master before this one didn't store.

    Parameters
    ----------
    core
        The master's state.
    over
        Called with each one that has ended, and its answer; None if that is unknown.
    """

    def __init__(self, core: Core, over: Callable[[ObjectTransfer, CommandAnswer | None], None]) -> None:
        self._core, self._over = core, over
        self._rows = dict(core.image.transfers)
        self._until_s = core.clock() + core.options.node_loss_s

    @property
    def objects(self) -> int:
        """How many objects they are about."""
        return sum(len(row.objects) for row in self._rows.values())

    @property
    def deadline_s(self) -> float | None:
        """When nodes that have not come back count as gone; None if nothing depends on that."""
        return self._until_s if self._rows else None

    def joined(self, node: str, tasks: Mapping[str, int]) -> None:
        """Take in that a node is there, and what it is at work on.

        Parameters
        ----------
        node
            Its name.
        tasks
            By object, the task that makes or removes it.
        """
        for row in [row for row in self._rows.values() if row.node == node]:
            if tasks.get(row.path, 0) == row.task:
                self._core.adopt(node, tasks[row.path], partial(self._answered, row))
            else:
                self._end(row)

    def give_up(self) -> None:
        """Don't wait any longer for nodes that have been away for too long."""
        if self._rows and self._core.clock() >= self._until_s:
            for row in list(self._rows.values()):
                node = self._core.nodes.get(row.node)
                if node is None or node.peer is None:
                    self._end(row)

    def _answered(self, row: ObjectTransfer, answer: CommandAnswer) -> None:
        """Without a task it is no answer, since the node went away with it."""
        if answer.task and answer.done and row.path in self._rows:
            self._end(row, answer)

    def _end(self, row: ObjectTransfer, answer: CommandAnswer | None = None) -> None:
        del self._rows[row.path]
        self._core.commit(TransferredRecord(row))
        self._over(row, answer)
