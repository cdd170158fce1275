"""Trying again: with waits that double, as long as there is hope."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from bbflow.errors import BbflowError, SourceError
from bbflow.staging.gate import Closed

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Retry:
    """How often, and when, something is tried again."""

    attempts: int = 9
    """In a row without any progress."""
    silences: int = 2
    """Of these attempts, those in which nothing came until the store's limit: more would be minutes each."""
    first_s: float = 0.1
    """Wait before the second attempt; it doubles with each further one."""
    longest_s: float = 10.0
    """Longest wait."""

    def wait_s(self, failures: int, chance: float) -> float:
        """Return the wait after some failures in a row, in seconds: half of it fixed, half by chance (0 to 1)."""
        # By chance, or all fetchers that a busy server has refused would come back to it together.
        return min(self.first_s * 2.0 ** (failures - 1), self.longest_s) * (0.5 + 0.5 * chance)


def persist(
    action: Callable[[], T],
    url: str,
    retry: Retry,
    progress: Callable[[], float] = lambda: 0.0,
    sleep: Callable[[float], object] = time.sleep,
    failed: Callable[[str], object] = lambda reason: None,
) -> T:
    """Do something that may fail by bad luck, until it succeeds or there is no hope.

    Parameters
    ----------
    action
        What to do.
    url
        On which file, for the message.
    retry
        How often.
    progress
        A number that grows with progress: failures before it grew don't count any more.
    sleep
        Waits this many seconds.
    failed
        Told why an attempt has failed that is followed by another.

    Raises
    ------
    SourceError
        After too many failures in a row.
    BbflowError, Closed
        What the action raises of these: trying again wouldn't help.
    """
    failures = silences = 0
    while True:
        before = progress()
        try:
            return action()
        except (BbflowError, Closed):
            raise
        except Exception as error:  # what a client raises depends on the protocol
            if progress() > before:
                failures = silences = 0
            failures, silences = failures + 1, silences + _is_silence(error)
            if failures >= retry.attempts or silences >= retry.silences:
                raise SourceError(
                    f"{url}: gave up after {failures} failures in a row ({reason_of(error)}): check it"
                ) from error
            failed(reason_of(error))
        sleep(retry.wait_s(failures, random.random()))


def _is_silence(error: Exception) -> bool:
    """Whether nothing was heard for as long as the store waits; urllib and fsspec have that as a reason."""
    return any(isinstance(each, TimeoutError) for each in (error, error.__cause__, getattr(error, "reason", None)))


def reason_of(error: Exception) -> str:
    """Return why an attempt failed, in a line."""
    cause = error.__cause__ or error  # a client may give another error the name of a missing file
    words = " ".join(str(cause).strip().partition("\n\n")[0].split())  # what follows are obstore's details
    return f"{type(cause).__name__}: {words}" if words else type(cause).__name__
