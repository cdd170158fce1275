"""Steps that have landed together, since their ranks had folded them: they are taken together, or not at all."""

from bbflow.errors import StreamError
from bbflow.stream.records import Parts
from bbflow.transit.folding.slots import Keys
from bbflow.view.stream import StreamView


def whole_landings(view: StreamView, cursor: int, most: int, before: float) -> tuple[list[int], list[int]]:
    """Return what `StreamView.settled_after` does of steps before one, with those that landed with the last of them.

    Raises
    ------
    StreamError
        If the step that has their state was discarded.
    """
    numbers, torn = view.settled_after(cursor, most)
    while len(numbers) == most and view.continues(numbers[-1]):
        most += len(numbers)
        numbers, torn = view.settled_after(cursor, most)
    if numbers and view.continues(numbers[-1]):
        raise StreamError(_parted(numbers[-1] + 1))
    numbers = [number for number in numbers if number < before]
    while numbers and view.continues(numbers[-1]):
        numbers.pop()
    return numbers, torn


Landing = tuple[int, Keys | None]
"""Next step of an unfinished landing, and the spans of all its steps, None if these are left out."""


def next_landing(landing: Landing | None, number: int, parts: Parts, keys: Keys | None) -> Landing | None:
    """Return the landing that continues after a step, if one does: what ranks have folded together can't be parted.

    Parameters
    ----------
    landing
        The one that continues before it.
    number, parts
        The step, and its parts.
    keys
        The spans that it is in; None if it is left out.

    Raises
    ------
    StreamError
        If those before it, which ranks have folded with it, are in others, or one of them was discarded.
    """
    if landing is not None and landing != (number, keys):
        raise StreamError(_parted(number))
    return (number + 1, keys) if any(part.layout.continues for part in parts.values()) else None


def _parted(number: int) -> str:
    return (
        f"step {number} is in another span of time than the steps before it, left out for its time, or one was "
        "discarded, but its ranks have folded all of them into one state: start the program again with ranks that all "
        "Put the time, or with fold: on: node"
    )
