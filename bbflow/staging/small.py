"""Small files: read in one go, checked, and put in their places; what isn't that simple is a `Transfer`'s."""

import time
from collections.abc import Iterator

from bbflow.staging.checksums import Checking
from bbflow.staging.fetching import MOST_BYTES, Receipt, SmallBatch
from bbflow.staging.files import File
from bbflow.staging.gate import Gate
from bbflow.staging.shelf import Note
from bbflow.staging.transfers import Places
from bbflow.stores.facts import Facts
from bbflow.stores.sources import Sources


def copy_batch(copies: Iterator[Receipt | None], size_bytes: int, gate: Gate, rank: int) -> SmallBatch:
    """Copy small files, one after the other, when the gate lets them all pass.

    Parameters
    ----------
    copies
        Copies the next of them each time, as `copy_whole`.
    size_bytes
        Of all, as far as is known.
    gate, rank
        Who says when, and the place of the first in the order of all transfers.

    Raises
    ------
    Closed
        If the gate was closed.
    """
    receipts: list[Receipt | None] = []
    ended_s: list[float] = []
    with gate.batch(size_bytes, rank):
        started_s, started_cpu_s = time.perf_counter(), time.thread_time()
        for receipt in copies:
            receipts.append(receipt)
            ended_s.append(time.perf_counter() - started_s)
        return SmallBatch(receipts, ended_s, time.thread_time() - started_cpu_s)


def copy_whole(file: File, sources: Sources, shelf: Places) -> Receipt | None:
    """Copy a small file that isn't there yet, not even in part; None if anything isn't as it should be.

    Its content and its version come from one read, so it is a copy of one version without asking twice.
    """
    try:
        found = None if shelf.has(file.url) else sources.whole(file.url, MOST_BYTES)
        if found is None or not _is_wanted(file, *found):
            return None
        facts, content = found
        path = shelf.put(Note(file.url, facts.size_bytes, facts.version or ""), content)
        return Receipt(path, facts.size_bytes, facts.size_bytes)
    except Exception:  # whatever it was: the long way tries again, or says what is wrong
        return None


def _is_wanted(file: File, facts: Facts, content: bytes) -> bool:
    if len(content) != facts.size_bytes or file.size_bytes not in (None, facts.size_bytes):
        return False
    checks = [Checking(file.checksum), Checking(facts.checksum)]
    for check in checks:
        check.take(content)
    return not any(check.differs for check in checks)
