"""The room of a burst buffer: how far a file in it is, and which go for others. Pure decisions.

Three keep such room, and decide by what stands here: the waves for inputs (`residency`), Parsl's executor and the
simulator for what tasks make (`makings`), and the workers of a node that has a burst buffer of its own.
"""

from collections.abc import Callable, Iterable
from enum import Enum
from typing import TypeVar


class FileState(Enum):
    """How far a file on the burst buffer is."""

    FOUND = "left by an earlier life: whole or partial, to be checked before use"
    COMING = "being copied"
    AWAITED = "a task is going to make it"
    HERE = "whole"
    UNCHECKED = "whole, but unused for a while: its source may have changed, to be checked before use"
    LEAVING = "whole, and being copied to its own place to make room"
    GONE = "not on the burst buffer"


F = TypeVar("F")


def first_enough(files: Iterable[F], short_bytes: int, size_bytes: Callable[[F], int]) -> tuple[list[F], int]:
    """Choose what goes: the first files, until they are enough.

    Parameters
    ----------
    files
        Those that may go, first what is missed least. Nothing is drawn from it beyond the last that is chosen.
    short_bytes
        How much room is lacking.
    size_bytes
        Gives a file's.

    Returns
    -------
    list, int
        What goes, and the bytes that are still lacking: above zero if all together aren't enough.
    """
    chosen: list[F] = []
    if short_bytes > 0:
        for file in files:
            chosen.append(file)
            short_bytes -= size_bytes(file)
            if short_bytes <= 0:
                break
    return chosen, short_bytes
