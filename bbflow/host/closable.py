"""What is closed at the end of a ``with``."""

from abc import ABC, abstractmethod
from typing import Self


class Closable(ABC):
    """Has a `close`, which ends a ``with`` of it."""

    @abstractmethod
    def close(self) -> None:
        """Release what it holds."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
