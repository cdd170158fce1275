"""A finished picture."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture with its words."""

    name: str
    """Of its file, without the ending."""
    title: str
    """Heading."""
    caption: str
    """What is seen, in sentences."""
    png: bytes
    """The file's content."""
