"""Transfer files as pegasus-transfer does, giving way to the I/O phases of others; Pegasus runs this.

The list of transfers comes on standard input, or from a file. Copies between local files, S3 and HTTP are bbflow's, and
so are removals and new directories; all else goes to the pegasus-transfer that is installed. Only jobs that stage in
give way: no slot is occupied meanwhile.
"""

import argparse
import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bbflow.errors import ConfigError
from bbflow.host.log import tell
from bbflow.staging import Retry
from bbflow.staging.stager import MOST_FETCHERS
from bbflow.units import format_bytes
from bbflow_pegasus.conduct import Conduct, conduct_of
from bbflow_pegasus.credentials import SiteCredentials
from bbflow_pegasus.delegating import delegate
from bbflow_pegasus.housekeeping import Chore, chore_of, do_chores
from bbflow_pegasus.requests import Request, distinct, read_entries, request_of
from bbflow_pegasus.statistics import Attempt, generate_checksums, write_attempts
from bbflow_pegasus.transfer_job import TransferJob, staged

THREADS = 8
"""As pegasus-transfer's default."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options, which are pegasus-transfer's."""
    parser.add_argument("-f", "--file", type=Path, help="with the list of transfers (default: standard input)")
    parser.add_argument("-m", "--max-attempts", type=int, help="of each file in a row without progress (default 9)")
    parser.add_argument("-n", "--threads", type=int, default=0, help=f"files at once (default {THREADS})")
    parser.add_argument("-s", "--symlink", action="store_true", help="for pegasus-transfer only")
    parser.add_argument("-d", "--debug", action="store_true", help="for pegasus-transfer only")


def run(options: argparse.Namespace) -> int:
    """Run the command; 1 if a file couldn't be transferred, as Pegasus expects it."""
    # HTCondor removes jobs by SIGTERM, which would end Python without its `finally` clauses.
    signal.signal(signal.SIGTERM, _stop)
    conduct = conduct_of(os.environ)
    entries = read_entries(_read(options.file))
    work = sort_out(entries, conduct, links=options.symlink)
    code = 0
    if work.chores:
        do_chores(work.chores, SiteCredentials(os.environ))
    if work.requests:
        code = _copy(work.requests, conduct, options)
    if work.others and not code:
        code = delegate(work.others, _words(options), os.environ)
    return code


@dataclass(frozen=True, slots=True)
class Work:
    """A list of transfers, by who does them."""

    requests: list[Request]
    """Files that bbflow copies."""
    chores: list[Chore]
    """What bbflow removes or makes."""
    others: list[dict[str, Any]]
    """For pegasus-transfer."""


def sort_out(entries: Sequence[dict[str, Any]], conduct: Conduct, *, links: bool = False) -> Work:
    """Separate what bbflow does from what goes to pegasus-transfer.

    Parameters
    ----------
    entries
        The list.
    conduct
        A job that stages in copies to the burst buffer only.
    links
        Whether local files may be linked instead of copied, which pegasus-transfer does.
    """
    work = Work([], [], [])
    for entry in entries:
        chore, request = chore_of(entry, os.environ), request_of(entry, os.environ)
        if chore is not None:
            work.chores.append(chore)
        elif request is not None and not links and _is_meant(request, conduct):
            # What the workflow says of a file that jobs make is how large it may become.
            work.requests.append(request if conduct.is_stage_in else replace(request, size_bytes=None))
        else:
            work.others.append(entry)
    return work


def _is_meant(request: Request, conduct: Conduct) -> bool:
    target = conduct.target if conduct.is_stage_in else None
    return target is None or f"{request.target.url}/".startswith(target.removeprefix("file://").rstrip("/") + "/")


def _copy(requests: Sequence[Request], conduct: Conduct, options: argparse.Namespace) -> int:
    threads = _threads(options.threads or os.environ.get("PEGASUS_TRANSFER_THREADS") or THREADS)
    retry = Retry(options.max_attempts) if options.max_attempts else Retry()
    started_s = time.time()
    requests = distinct(requests)
    attempts = TransferJob(conduct, SiteCredentials(os.environ), threads, retry).run(requests)
    write_attempts(attempts, os.environ)
    targets = staged(attempts)
    have = [request for request in requests if request.target.url in targets]
    _tell(attempts, len(have), len(requests), time.time() - started_s)
    generate_checksums(have, os.environ)
    return 0 if len(have) == len(requests) else 1


def _threads(given: int | str) -> int:
    """Check how many files are copied at once: none would wait forever."""
    with suppress(ValueError):
        if 1 <= int(given) <= MOST_FETCHERS:
            return int(given)
    raise ConfigError(f"threads is {given}: --threads, or PEGASUS_TRANSFER_THREADS, must be from 1 to {MOST_FETCHERS}")


def _tell(attempts: Sequence[Attempt], have: int, wanted: int, elapsed_s: float) -> None:
    """Print one line for each failure, and one for all."""
    for attempt in attempts:
        if attempt.error is not None:
            tell(f"{attempt.request.lfn}: {attempt.error}", program="bbflow-pegasus")
    size = format_bytes(sum(attempt.size_bytes for attempt in attempts))
    also = f"; {wanted - have} couldn't be" if have < wanted else ""
    print(f"{have} files, {size}, staged in {elapsed_s:.1f} s{also}", flush=True)


def _stop(number: int, _: object) -> None:
    """End as if by an error, so that what was announced is taken back; what was copied stays for the next attempt."""
    sys.exit(128 + number)


def _read(path: Path | None) -> str:
    try:
        return sys.stdin.read() if path is None else path.read_text()
    except OSError as error:
        raise ConfigError(f"can't read the transfer list {path}: {error.strerror}") from None


def _words(options: argparse.Namespace) -> list[str]:
    """Return pegasus-transfer's arguments."""
    words = ["--threads", str(options.threads)] if options.threads else []
    words += ["--max-attempts", str(options.max_attempts)] if options.max_attempts else []
    return words + ["--symlink"] * options.symlink + ["--debug"] * options.debug
