"""Checksums such as ``sha256:…``, of bytes as they come."""

import hashlib
from pathlib import Path
from typing import Any

from bbflow.errors import ConfigError, nearest

ALGORITHMS = ("md5", "sha1", "sha256", "sha512")


class Checking:
    """Takes a file's bytes, in order, and compares in the end.

    Parameters
    ----------
    expected
        Such as ``md5:…``; nothing is checked if None.

    Raises
    ------
    ConfigError
        If the algorithm isn't known, or it isn't a text.
    """

    def __init__(self, expected: str | None) -> None:
        if not isinstance(expected, str | None):
            raise ConfigError(f"checksum {expected!r} is no text, such as sha256:…")
        self._algorithm, _, self._digits = (expected or "").partition(":")
        self._hash: Any = None
        if expected is not None:
            if self._algorithm not in ALGORITHMS:
                raise ConfigError(f"checksum {expected!r}: {nearest(self._algorithm, ALGORITHMS)}, then ':' and digits")
            self._hash = hashlib.new(self._algorithm, usedforsecurity=False)

    def take(self, content: bytes) -> None:
        """Take the next bytes."""
        if self._hash is not None:
            self._hash.update(content)

    def take_file(self, path: Path) -> None:
        """Take what an earlier attempt has copied."""
        if self._hash is not None:
            with path.open("rb") as file:
                while content := file.read(1 << 20):
                    self._hash.update(content)

    @property
    def differs(self) -> bool:
        """Whether what came isn't what was expected."""
        return self._hash is not None and self._hash.hexdigest() != self._digits.lower()

    @property
    def difference(self) -> str:
        """Return how it differs."""
        return f"its {self._algorithm} is {self._hash.hexdigest()}, but {self._digits} was expected"
