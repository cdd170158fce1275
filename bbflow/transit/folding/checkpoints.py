"""What the checkpoints on all nodes tell together, before anything of them is taken up."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgpack

from bbflow.view.consumers import Cursor


def nodes_with_states(cursors: Mapping[str, Cursor]) -> set[str]:
    """Return the nodes on which any checkpoint knows of states."""
    return {node for checkpoint in _told(cursors) for node in checkpoint["nodes"]}


def settled_files(cursors: Mapping[str, Cursor]) -> dict[str, str]:
    """Return the newest state file that any checkpoint names, for each diagnostic whose blocks have moved."""
    newest: dict[str, tuple[int, str]] = {}
    for checkpoint in _told(cursors):
        for key, (number, path) in checkpoint["settled"].items():
            newest[key] = max(newest.get(key, (-1, "")), (number, path))
    return {key: path for key, (_, path) in newest.items()}


def named_rosters(cursors: Mapping[str, Cursor]) -> set[str]:
    """Return the digests of the rosters that any checkpoint names."""
    return {name for checkpoint in _told(cursors) for name in checkpoint["rosters"]}


def _told(cursors: Mapping[str, Cursor]) -> Iterator[Mapping[str, Any]]:
    return (msgpack.unpackb(packed) for _, packed in cursors.values() if packed)
