"""Steps whose values a rank has folded: they are committed with the step that has the states."""

from msgspec import UnsetType

from bbflow.errors import ProtocolError
from bbflow.store.entries import CommitRecord
from bbflow.stream.records import Layout, Step


def folded_steps(record: CommitRecord, layout: Layout) -> list[Step]:
    """Return a rank's parts of the steps that are committed with another, oldest first.

    Parameters
    ----------
    record
        What was committed, with its last step.
    layout
        The one that it names for the others.

    Raises
    ------
    ProtocolError
        If these have blocks, or other values than the layout says.
    """
    assert not isinstance(record.held, UnsetType)
    first = record.step - len(record.held.steps)
    has_blocks = any(not (form.waits or form.is_single) for form in layout.forms)
    is_alike = all(len(values) == len(layout.singles) for values, _ in record.held.steps)
    if first < 0 or has_blocks or not layout.continues or not is_alike:
        raise ProtocolError(f"steps that were committed with step {record.step} can't be as they were told")
    began_s, committed_s = record.began_s, record.committed_s
    return [
        Step(first + at, layout, values=values, attributes=attributes, began_s=began_s, committed_s=committed_s)
        for at, (values, attributes) in enumerate(record.held.steps)
    ]
