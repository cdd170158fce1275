"""Which fields the steps have had: a name that changes from step to step is another variable in each."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Attendance:
    """Counts the steps in which fields were absent, since this analysis began."""

    steps: int = 0
    """Steps that were looked at."""
    _absent: Counter[str] = field(default_factory=Counter)

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
    def described(self) -> list[str]:
        """Say which fields were in some steps only, those that were in equally many in one line."""
        names: dict[int, list[str]] = {}
        for name, count in sorted(self._absent.items()):
            names.setdefault(self.steps - count, []).append(name)
        return [self._line(own, count) for count, own in sorted(names.items())]

    def _line(self, names: list[str], count: int) -> str:
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        return (
            f"{names[0]!r}{more}: in {count} of {self.steps} steps only, which its statistics are of; if the program "
            "gives it another name in each step, see docs/schemas.md"
        )
