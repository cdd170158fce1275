"""Which fields the steps have had: a name that changes from step to step is another variable in each."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

import msgspec

NO_POINTS: Mapping[str, int] = {}


class AttendanceRecord(msgspec.Struct, frozen=True):
    """What a checkpoint keeps of it."""

    steps: int = 0
    """As `Attendance.steps`."""
    absent: Mapping[str, int] = {}
    """Diagnostic to the steps that lacked its variables."""
    points: Mapping[str, int] = {}
    """Diagnostic to which points its field had first."""
    other: Mapping[str, int] = {}
    """Diagnostic to the steps in which its field had others."""
    last: int = -1
    """The last step that is counted."""


class Attendance:
    """Counts the folded steps in which fields were absent, or had other points than at first.

    After a crash the nodes are at different steps, and those that are ahead don't show their parts of steps that they
    are done with. So what was counted when all parts were there stands, and no step is counted again.
    """

    def __init__(self) -> None:
        self.steps = 0
        """Steps that were folded."""
        self._absent, self._other = Counter[str](), Counter[str]()
        self._points: dict[str, int] = {}
        self._last = -1

    def take(self, number: int, absent: Iterable[str], points: Mapping[str, int] = NO_POINTS) -> None:
        """Count a step, unless it is counted.

        Parameters
        ----------
        number
            The step.
        absent
            Diagnostics whose variables aren't in it.
        points
            Diagnostic to which points of its field are in it; without those of which that isn't known.
        """
        if number <= self._last:
            return
        self._last = number
        self.steps += 1
        self._absent.update(absent)
        self._other.update(key for key, own in points.items() if self._points.setdefault(key, own) != own)

    @property
    def record(self) -> AttendanceRecord:
        """What a checkpoint keeps of it."""
        return AttendanceRecord(self.steps, dict(self._absent), dict(self._points), dict(self._other), self._last)

    def restore(self, record: AttendanceRecord) -> None:
        """Go on from what a checkpoint has kept, unless another one's has counted more."""
        if record.last > self._last:
            self.steps, self._last = record.steps, record.last
            self._absent, self._other = Counter(record.absent), Counter(record.other)
            self._points = dict(record.points)

    @property
    def never(self) -> frozenset[str]:
        """Those that were in no step."""
        return frozenset(name for name, count in self._absent.items() if count == self.steps)

    def described(self, unasked: Collection[str] = ()) -> list[str]:
        """Return which fields, or points of them, were in some steps only; those in equally many in one line.

        Parameters
        ----------
        unasked
            Those of which nobody needs to hear.
        """
        seldom: dict[int, list[str]] = {}
        for name in sorted(self._absent.keys() - set(unasked)):
            seldom.setdefault(self.steps - self._absent[name], []).append(name)
        other: dict[int, list[str]] = {}
        for name in sorted(self._other.keys() - set(unasked)):
            other.setdefault(self._other[name], []).append(name)
        return [
            *(self._line(own, count) for count, own in sorted(seldom.items())),
            *(self._line_of_points(own, count) for count, own in sorted(other.items())),
        ]

    def _line(self, names: list[str], count: int) -> str:
        of = ", which its statistics are of" if count else ""
        return (
            f"{_named(names)}: in {count} of {self.steps} steps only{of}; if that is meant, say absent: skip there; "
            "if the program gives it another name in each step, see docs/models.md#schemas"
        )

    def _line_of_points(self, names: list[str], count: int) -> str:
        return (
            f"{_named(names)}: in {count} of {self.steps} steps ranks have written other points than at first, so some "
            "have statistics of some of the steps; if that is meant, say absent: skip there"
        )


def _named(names: list[str]) -> str:
    return repr(names[0]) + (f" and {len(names) - 1} more" if len(names) > 1 else "")
