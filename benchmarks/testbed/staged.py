"""The map application with its inputs prefetched by bbflow's stager."""

import os
from pathlib import Path

from bbflow.phases import BoardSource
from bbflow.staging import File, Stager, Task, parse_policy

from benchmarks.testbed.address import BUCKET, environment
from benchmarks.testbed.application import Read, run_tasks
from benchmarks.testbed.job import Job, Outcome

PIECE_BYTES = 1 << 20


def url(key: str) -> str:
    """Name an input as the stager takes it."""
    return f"s3://{BUCKET}/{key}"


def read_staged(job: Job) -> Outcome:
    """Run with all tasks given to a stager in program order; each waits until its input is on the BB."""
    os.environ.update(environment())
    stager = Stager(
        Path(job.directory),
        job.capacity_bytes,
        job.slots,
        policy=parse_policy(job.stager_policy),
        phases=BoardSource(Path(job.board)),
        fetchers=job.fetchers,
    )
    try:
        return run_tasks(job, lambda keys: _submit(stager, job, keys), stager.final)
    finally:
        stager.close()
