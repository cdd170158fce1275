"""What a source tells of a file, and how it refuses."""

from dataclasses import dataclass

from bbflow.errors import SourceError


@dataclass(frozen=True, slots=True)
class Facts:
    """What a source tells of a file."""

    size_bytes: int
    """Its size."""
    version: str | None
    """Changes whenever the content does: ETag, or time of the last change; None if it tells nothing."""
    checksum: str | None = None
    """Such as ``md5:…``; None if it tells none."""
    ranges: bool = True
    """Whether parts can be read by themselves; else it is one stream from the beginning."""

    @property
    def resumable(self) -> bool:
        """Whether a copy can be carried on with: the source has versions and gives ranges."""
        return self.ranges and self.version is not None


def missing(url: str) -> SourceError:
    """Say that a file isn't there."""
    return SourceError(f"{url} isn't there: check the URL")


def forbidden(url: str) -> SourceError:
    """Say that a file may not be used."""
    return SourceError(f"{url}: no permission; check its owner, or the credentials of its store")
