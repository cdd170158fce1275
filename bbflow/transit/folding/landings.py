"""Steps that have landed together, since their ranks had folded them: they are taken together, or not at all."""

from bbflow.errors import StreamError
from bbflow.transit.folding.patterns import Parts
from bbflow.transit.folding.slots import Keys
from bbflow.view.stream import StreamView


def whole_landings(view: StreamView, cursor: int, most: int, before: float) -> tuple[list[int], list[int]]:
    """Return what `StreamView.settled_after` does of steps before one, with those that landed with the last of them."""
    numbers, torn = view.settled_after(cursor, most)
    while numbers and view.continues(numbers[-1]):
        most += len(numbers)
        numbers, torn = view.settled_after(cursor, most)
    numbers = [number for number in numbers if number < before]
    while numbers and view.continues(numbers[-1]):
        numbers.pop()
    return numbers, torn


class Landings:
    """Sees that the steps of a landing are in the same spans: what ranks have folded can't be parted."""

    def __init__(self) -> None:
        self._open: tuple[Keys | None] | None = None
        """Spans of the steps of a landing that goes on, None if these are left out; none if there is none."""

    def take(self, number: int, parts: Parts, keys: Keys | None) -> bool:
        """Take a step in; return whether ranks have folded any of it.

        Parameters
        ----------
        number, parts
            The step, and what there is of it.
        keys
            The spans that it is in; None if it is left out.

        Raises
        ------
        StreamError
            If those before it, which ranks have folded with it, are in others.
        """
        if self._open is not None and self._open[0] != keys:
            raise StreamError(
                f"step {number} is in another span of time than the steps before it, or left out for its time, but its "
                "ranks have folded all of them into one state: start the program again with fold: on: node"
            )
        self._open = (keys,) if any(part.layout.continues for part in parts.values()) else None
        return any(part.layout.has_folded for part in parts.values())
