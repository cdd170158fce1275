"""What Spark is going to read: the partitions of a stage, in their order, and the parts of files that each reads."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bbflow.errors import ProtocolError
from bbflow.staging import File
from bbflow.stores.urls import Range, url_of_range

StageKey = tuple[str, int, int]
"""Application, stage and its attempt."""
PartitionKey = tuple[str, int, int, int]
"""Application, stage, attempt and partition."""


def name_of(key: PartitionKey) -> str:
    """Name a partition as a task of the stager."""
    application, stage, attempt, partition = key
    return f"{application}/{stage}.{attempt}/{partition}"


@dataclass(frozen=True, slots=True)
class PlannedBlock:
    """A part of a file that one partition reads; it is staged whole."""

    url: str
    """The file."""
    part: Range
    """Which bytes of it."""

    @property
    def file(self) -> File:
        """As the stager knows it."""
        return File(url_of_range(self.url, self.part), self.part.end - self.part.start)


@dataclass(frozen=True, slots=True)
class Partition:
    """What one task reads."""

    key: PartitionKey
    """Whose it is."""
    blocks: tuple[PlannedBlock, ...]
    """In the order in which it reads them; empty parts are left out."""


@dataclass(frozen=True, slots=True)
class StagePlan:
    """A stage that was submitted."""

    key: StageKey
    """Which."""
    slots: int
    """Tasks that can run at once, as Spark's driver sees it."""
    partitions: tuple[Partition, ...]
    """Those that read files, in the order in which they run."""


@dataclass(frozen=True, slots=True)
class StageQuestion:
    """A task wants to read."""

    key: PartitionKey
    """Who asks."""
    url: str
    """Which file."""
    at: int
    """Of the first byte."""


def stage_key(message: Mapping[str, Any]) -> StageKey:
    """Read which stage a message is about; `ProtocolError` if it doesn't say."""
    try:
        return str(message["app"]), int(message["stage"]), int(message["attempt"])
    except (KeyError, TypeError, ValueError):
        raise ProtocolError("a message of Spark that names no stage") from None


def partition_key(message: Mapping[str, Any]) -> PartitionKey:
    """Read which partition a message is about; `ProtocolError` if it doesn't say."""
    try:
        return (*stage_key(message), int(message["partition"]))
    except (KeyError, TypeError, ValueError):
        raise ProtocolError("a message of Spark that names no partition") from None


def read_plan(message: Mapping[str, Any]) -> StagePlan:
    """Read a plan; `ProtocolError` if it is none."""
    key = stage_key(message)
    try:
        partitions = tuple(
            Partition(
                (*key, int(index)),
                tuple(
                    PlannedBlock(str(u), Range(int(at), int(at) + int(size))) for u, at, size in parts if int(size) > 0
                ),
            )
            for index, parts in message["partitions"]
        )
        return StagePlan(key, max(1, int(message["slots"])), tuple(p for p in partitions if p.blocks))
    except (KeyError, TypeError, ValueError):
        raise ProtocolError("a plan of Spark that can't be read") from None


def read_question(message: Mapping[str, Any]) -> StageQuestion:
    """Read a question; `ProtocolError` if it is none."""
    try:
        return StageQuestion(partition_key(message), str(message["url"]), int(message["at"]))
    except (KeyError, TypeError, ValueError):
        raise ProtocolError("a question of Spark that can't be read") from None
