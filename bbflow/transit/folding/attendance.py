"""Which fields the steps have had: a name that changes from step to step is another variable in each."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

import msgspec


class AttendanceRecord(msgspec.Struct, frozen=True):
    """What a checkpoint keeps of it."""

    steps: int = 0
    """As `Attendance.steps`."""
    absent: Mapping[str, int] = {}
    """Diagnostic to the steps that lacked its variables."""


class Attendance:
    """Counts the folded steps in which fields were absent."""

    def __init__(self) -> None:
        self.steps = 0
        """Steps that were folded."""
        self._absent = Counter[str]()

    def take(self, absent: Iterable[str]) -> None:
        """Count a step.

        Parameters
        ----------
        absent
            Diagnostics whose variables aren't in it.
        """
        self.steps += 1
        self._absent.update(absent)

    @property
    def record(self) -> AttendanceRecord:
        """What a checkpoint keeps of it."""
        return AttendanceRecord(self.steps, dict(self._absent))

    def restore(self, record: AttendanceRecord) -> None:
        """Go on from what a checkpoint has kept."""
        self.steps, self._absent = record.steps, Counter(record.absent)

    @property
    def never(self) -> frozenset[str]:
        """Those that were in no step."""
        return frozenset(name for name, count in self._absent.items() if count == self.steps)

    def described(self, unasked: Collection[str] = ()) -> list[str]:
        """Return which fields were in some steps only, those that were in equally many in one line.

        Parameters
        ----------
        unasked
            Those of which nobody needs to hear.
        """
        names: dict[int, list[str]] = {}
        for name, count in sorted(self._absent.items()):
            if name not in unasked:
                names.setdefault(self.steps - count, []).append(name)
        return [self._line(own, count) for count, own in sorted(names.items())]

    def _line(self, names: list[str], count: int) -> str:
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        of = ", which its statistics are of" if count else ""
        return (
            f"{names[0]!r}{more}: in {count} of {self.steps} steps only{of}; if that is meant, say absent: skip there; "
            "if the program gives it another name in each step, see docs/models.md#schemas"
        )
