"""What a rank says when it commits, checked and turned into records of the index. All of it is pure."""

from bbflow.errors import ProtocolError
from bbflow.layouts import NO_BLOCKS
from bbflow.records import Message, Step
from bbflow.store.ranks import Rank
from bbflow.store.streams import extents_of


def commit_of(rank: int, progress: Rank, message: Message) -> Message:
    """Give what a record says of a rank's commit.

    Parameters
    ----------
    rank, progress
        Who commits, and what it was given.
    message
        What it said.

    Raises
    ------
    ProtocolError
        If a block doesn't lie in what the rank was given, or the commit is wrong in another way.
    """
    layout = progress.layouts.find(message)
    if "forms" in message and any(form.rank != rank for form in layout.forms):
        raise ProtocolError(f"rank {rank} committed a block of another rank")
    part = Step.from_wire(message, layout)
    granted, used = dict(progress.granted), dict(extents_of(part))
    if len(used) < len(layout.reach) or any(granted.get(first, 0) < size for first, size in used.items()):
        raise ProtocolError(f"rank {rank} committed a block outside of what it was given")
    is_recorded = "forms" not in message and message["layout"] in progress.recorded
    return (
        {key: message[key] for key in ("layout", "sources", "files", "values", "extremes")}
        | ({} if is_recorded or message["layout"] == NO_BLOCKS else {"forms": layout.to_wire()})
        | {"attributes": plain_attributes(message["attributes"])}
    )


def plain_attributes(attributes: list[Message]) -> list[Message]:
    """Give attributes without what doesn't belong there."""
    return [{key: item[key] for key in ("name", "type", "value")} for item in attributes]
