"""What a transfer job tells Pegasus of its attempts: YAML, and checksums by Pegasus's own program."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bbflow.errors import MissingToolError, SourceError
from bbflow_pegasus.requests import Request, TransferPlace

MULTIPART = "PEGASUS_MULTIPART_DIR"
_AT_ONCE = 100
"""Checksums that one process of pegasus-integrity computes."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A file that was staged, or couldn't be, from one of its replicas."""

    request: Request
    """What was asked for."""
    source: TransferPlace
    """The replica."""
    started_s: float
    """Seconds since the epoch."""
    duration_s: float
    """How long it took."""
    size_bytes: int
    """Of the file; 0 if it couldn't be staged."""
    error: Exception | None = None
    """Why not."""


def write_attempts(attempts: Iterable[Attempt], environment: Mapping[str, str]) -> Path | None:
    """Write them where Pegasus looks for a job's records; nowhere if it doesn't.

    Returns
    -------
    Path or None
        The file.
    """
    directory = environment.get(MULTIPART)
    if not directory:
        return None
    # pegasus-transfer, which may run for the same job, writes <seconds>-transfer
    path = Path(directory) / f"{int(time.time())}-bbflow-{os.getpid()}"
    path.write_text("".join(["- transfer_attempts:\n", *map(_record, attempts)]))
    return path


def _record(attempt: Attempt) -> str:
    request = attempt.request
    lines = {
        "src_url": json.dumps(_url(attempt.source)),
        "src_label": json.dumps(attempt.source.site),
        "dst_url": json.dumps(_url(request.target)),
        "dst_label": json.dumps(request.target.site),
        "success": str(attempt.error is None),
        "start": f"{attempt.started_s:.0f}",
        "duration": f"{attempt.duration_s:.1f}",
        "lfn": json.dumps(request.lfn),
        "bytes": str(attempt.size_bytes),
    }
    return "  - " + "\n    ".join(f"{key}: {value}" for key, value in lines.items()) + "\n"


def _url(place: TransferPlace) -> str:
    return f"file://{place.url}" if place.protocol == "file" else place.url


def generate_checksums(requests: Sequence[Request], environment: Mapping[str, str]) -> None:
    """Make pegasus-integrity compute the checksums that Pegasus wants of staged files.

    Raises
    ------
    MissingToolError
        If the program isn't there.
    SourceError
        If it fails.
    """
    wanted: dict[str, str] = {}
    for request in requests:
        local = request.target if request.target.protocol == "file" else request.sources[0]
        if request.generate_checksum and request.lfn:
            wanted[request.lfn] = local.url
    everything = list(wanted.items())
    for start in range(0, len(everything), _AT_ONCE):
        items = everything[start : start + _AT_ONCE]
        files = ";;;".join(f"{lfn}={path}" for lfn, path in items)
        done = subprocess.run(
            [tool("pegasus-integrity", environment), f"--generate-fullstat-yaml={files}"],
            env=dict(environment),
            check=False,
            stdout=sys.stdout,
        )
        if done.returncode:
            raise SourceError(f"pegasus-integrity ended with code {done.returncode} for {items[0][0]} and others")


def tool(name: str, environment: Mapping[str, str]) -> str:
    """Find a program of Pegasus.

    Raises
    ------
    MissingToolError
        If it is neither below PEGASUS_HOME nor on PATH.
    """
    home = environment.get("PEGASUS_HOME")
    places = [str(Path(home) / "bin")] if home else []
    found = shutil.which(name, path=os.pathsep.join([*places, environment.get("PATH", os.defpath)]))
    if found is None:
        raise MissingToolError(f"{name} isn't on PATH: set PEGASUS_HOME, or put Pegasus's bin directory on PATH")
    return found
