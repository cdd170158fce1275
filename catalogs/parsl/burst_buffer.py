"""Parsl's configuration for an app whose inputs lie on the PFS: they come over a burst buffer in memory.

Copy it, name your own directories, and load `config` where the app loads its own.
"""

import os

from bbflow_parsl import BurstBufferExecutor, BurstBufferSettings
from parsl.config import Config
from parsl.providers import LocalProvider

PFS = os.environ.get("PFS", "/pfs")
"""Where the inputs lie."""
WORK = os.environ.get("WORK", os.path.abspath("montage-out/work"))
"""Where the app names its intermediate files; they stay on the burst buffer."""

config = Config(
    executors=[
        BurstBufferExecutor(
            label="bb",
            address="127.0.0.1",
            max_workers_per_node=2,
            cores_per_worker=1e-3,
            provider=LocalProvider(init_blocks=1, max_blocks=1),
            burst_buffer=BurstBufferSettings(directory="/dev/shm", capacity="2GiB", sources=[PFS], intermediate=[WORK]),
        )
    ],
    strategy="none",
    initialize_logging=False,
)
