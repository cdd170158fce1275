"""Parsl's configuration for nodes that have a burst buffer each, such as a local NVMe, and share none.

Every worker fetches what its task reads to its own node, once for all tasks there, and copies results out. Copy it,
name your own directories, give it your provider, and load `config` where the app loads its own. As it stands it runs
on this host: its two pilot blocks are the nodes, each with a directory of its own.
"""

import os

from bbflow_parsl import BurstBufferExecutor, BurstBufferSettings
from parsl.config import Config
from parsl.providers import LocalProvider

PFS = os.environ.get("PFS", "/pfs")
"""Where the inputs lie."""
WORK = os.environ.get("WORK", os.path.abspath("montage-out/work"))
"""Where the app names its intermediate files: tasks on other nodes read them there."""

config = Config(
    executors=[
        BurstBufferExecutor(
            label="bb",
            address="127.0.0.1",
            max_workers_per_node=1,  # as many tasks compute on a node; as many workers again fetch for the next ones
            cores_per_worker=1e-3,
            provider=LocalProvider(init_blocks=2, max_blocks=2),  # or SlurmProvider(nodes_per_block=…, …)
            burst_buffer=BurstBufferSettings(
                node_directory="/dev/shm/bbflow-node-$PARSL_WORKER_BLOCK_ID",  # or "$TMPDIR", "/local/scratch"
                node_capacity="1GiB",
                sources=[PFS],
                intermediate=[WORK],
                expected={WORK: "16MiB"},
                peers="127.0.0.1",  # this host's address for its nodes, which copy from each other what one has
            ),
        )
    ],
    strategy="none",
    initialize_logging=False,
)
