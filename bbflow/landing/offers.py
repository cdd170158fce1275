"""Room that a rank is given before it asks: who removes a link first has it, the rank or the node."""

import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

from bbflow.belongings import is_ours

DIRECTORY = "offers"


class Offers:
    """Offers to ranks of this host, each a link to the offset of what is offered; a rank takes one without a word.

    A symbolic link needs one call to make, a file with the same in it needs six.

    Parameters
    ----------
    directory
        The node's.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory / DIRECTORY
        self._directory.mkdir(mode=0o700, exist_ok=True)
        self._standing: set[str] = set()

    def take_back_all(self) -> Iterator[int]:
        """Withdraw what an earlier agent has offered and nobody has taken; gives its offsets."""
        own = (path for path in self._directory.iterdir() if is_ours(self._directory.parent, path))
        for path in own:
            try:
                offset = int(os.readlink(path))
                path.unlink()
            except FileNotFoundError:  # its rank was faster
                continue
            yield offset

    def new_name(self) -> str:
        """Give the name of one connection's offers, which no other ever has."""
        return secrets.token_hex(8)

    def make(self, name: str, offset: int) -> bool:
        """Offer what lies there, as the offer before was taken; false if the file system is full."""
        try:
            os.symlink(str(offset), f"{self._directory}/{name}")
        except OSError:
            return False
        self._standing.add(name)
        return True

    def take_back(self, name: str, withdraw: Callable[[], None]) -> bool:
        """Withdraw an offer, which an agent started again goes on with; false if there is none, or it was taken."""
        if name not in self._standing:
            return False
        self._standing.remove(name)
        back = self._directory / f"{name}.back"
        try:
            (self._directory / name).rename(back)
        except FileNotFoundError:
            return False
        withdraw()
        back.unlink()
        return True

    def stands(self, name: str) -> bool:
        """Whether something is offered that nobody has taken."""
        return name in self._standing and (self._directory / name).is_symlink()
