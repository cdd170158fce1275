"""What a check has found."""

from dataclasses import dataclass

from bbflow.errors import printable

FINE, NOTE, WRONG = "ok", "note", "wrong"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of what was found."""

    kind: str
    """`FINE`, `NOTE` (it may be meant so) or `WRONG` (the run would fail)."""
    what: str
    """What was looked at, such as nodes."""
    text: str
    """What is so; where it is wrong, also what to do."""

    def __str__(self) -> str:
        return printable(f"{self.kind:5} {self.what}: {self.text}")
