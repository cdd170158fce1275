"""Room that a rank is given before it asks: who moves a link first has it, the rank or the node."""

import os
import secrets
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from msgspec import DecodeError, Struct
from msgspec.json import decode, encode

from bbflow.host.belongings import is_ours
from bbflow.store.extents import Extent

DIRECTORY = "offers"
TAKEN = ".taken"
"""What a rank puts behind the name of an offer that it takes."""


class Offer(Struct, frozen=True, array_like=True):
    """Room for a step that a rank has not begun."""

    stream: str
    """The stream."""
    rank: int
    """Whose room."""
    step: int
    """For which step."""
    extent: Extent
    """Which room."""


class Offers:
    """Offers to ranks of this host, each a link that says what is offered; a rank takes one without a word.

    A symbolic link needs one call to make, a file with the same in it needs six. Where its rank has renamed it, it is
    what tells an agent that is started again of the room: the index doesn't.

    Parameters
    ----------
    directory
        The node's.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory / DIRECTORY
        self._directory.mkdir(mode=0o700, exist_ok=True)
        self._standing: set[str] = set()

    def take_back_all(self) -> Iterator[Offer]:
        """Withdraw what an earlier agent has offered and no rank has taken; gives what was taken last."""
        own = [path for path in self._directory.iterdir() if is_ours(self._directory.parent, path)]
        for path in {path.with_suffix("") for path in own}:
            path.unlink(missing_ok=True)  # now its rank can't take it any more
            taken = path.with_suffix(TAKEN)
            with suppress(FileNotFoundError, DecodeError):
                yield decode(os.readlink(taken), type=Offer)
            taken.unlink(missing_ok=True)

    def new_name(self) -> str:
        """Return the name of one connection's offers, which no other ever has."""
        return secrets.token_hex(8)

    def make(self, name: str, offer: Offer) -> bool:
        """Offer something, as the offer before was taken; false if the file system is full."""
        try:
            os.symlink(encode(offer), f"{self._directory}/{name}")
        except OSError:
            return False
        self._standing.add(name)
        return True

    def take_back(self, name: str) -> bool:
        """Withdraw an offer; false if there is none, or it was taken."""
        if name not in self._standing:
            return False
        self._standing.remove(name)
        try:
            # The link's end decides: if its rank has renamed it meanwhile, the room is the rank's.
            (self._directory / name).unlink()
        except FileNotFoundError:
            return False
        return True

    def forget(self, name: str) -> None:
        """Forget what was taken of a connection that is gone: the index tells of it, or its rank needs it no more."""
        if name:
            (self._directory / f"{name}{TAKEN}").unlink(missing_ok=True)

    @property
    def stand(self) -> bool:
        """Whether there are any that haven't been seen taken."""
        return bool(self._standing)

    def stands(self, name: str) -> bool:
        """Whether something is offered and not taken."""
        return name in self._standing and (self._directory / name).is_symlink()
