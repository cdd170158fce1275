"""What a node shows of a stream: the reply of `watch`, as the node makes it and as a client takes it in."""

from msgspec import UNSET, Struct, UnsetType

from bbflow.reading.wire_types import Attribute, Count, Moment, Row, Settled, Status, Value
from bbflow.stream.layouts import Known, Layout
from bbflow.stream.records import Step, check_fits


class ShownStep(Struct, frozen=True, kw_only=True):
    """A step in a reply of `watch`."""

    step: int
    layout: int
    forms: tuple[Row, ...] | UnsetType = UNSET
    sources: bytes
    files: tuple[str, ...]
    values: tuple[Value, ...]
    extremes: bytes = b""
    """Empty if they weren't asked for."""
    attributes: tuple[Attribute, ...]
    ranks: Count
    began_s: Moment
    committed_s: Moment

    @classmethod
    def of(cls, step: Step, known: Known, *, extremes: bool) -> "ShownStep":
        """Show a step.

        Parameters
        ----------
        step
            Which.
        known
            Layouts that the other side has already.
        extremes
            Whether it wants minima and maxima.
        """
        told = step.told(known)
        return cls(step=step.number, ranks=step.ranks, **(told if extremes else told | {"extremes": b""}))

    def taken(self, layout: Layout) -> Step:
        """Return the step.

        Raises
        ------
        ProtocolError
            If it doesn't fit the layout that it names.
        """
        check_fits(self, layout)
        times = {"began_s": self.began_s, "committed_s": self.committed_s}
        return Step.of(self.step, layout, self, attributes=self.attributes, ranks=self.ranks, **times)


class Shown(Struct, frozen=True, kw_only=True):
    """The reply of `watch` (FORMAT.md, 'Analysis and agent')."""

    ok: bool = True
    change: int
    status: Status
    writers: Count
    local_writers: Count
    base: tuple[Attribute, ...]
    """As they were before the oldest step that is kept."""
    attributes: tuple[Attribute, ...]
    """The newest."""
    steps: tuple[ShownStep, ...]
    more: bool
    """Whether there are more steps than these."""
    last: int
    """Highest step up to which all that is settled was told."""
    discarded: tuple[Count, ...]
    moved: tuple[tuple[Count, str, Settled], ...]
    """Ranks that came from a node that was lost, its name, and their first step here."""
    refused: tuple[str, ...] = ()
    """What the program was refused, and the stream lacks."""
    file: str = ""
    """Absolute path of the file that its ranks here name; empty if it isn't known."""
