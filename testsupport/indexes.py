"""Indexes of nodes as files, whole or torn."""

from pathlib import Path

from bbflow.store.index import LENGTH, length_file


def plant_index(directory: Path, whole: bytes, acknowledged: int | None = None) -> None:
    """Write an index of which so many bytes were acknowledged; None for all."""
    path = directory / "index"
    path.write_bytes(whole)
    length_file(path).write_bytes(LENGTH.pack(len(whole) if acknowledged is None else acknowledged))
