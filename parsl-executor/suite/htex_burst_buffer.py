"""For Parsl's own test suite (`pytest parsl/tests --config …`): every input goes over a burst buffer.

With BB_RESULTS=/ in the environment every output does so too. Two tests fail then, by their nature: one wants the path
of an input to be the one that the app named, one counts the empty files that its failing tasks leave.
With BB_NODE=DIRECTORY files go over the node's own burst buffer there.
"""

import os
import tempfile
from pathlib import Path

from bbflow_parsl import BurstBufferExecutor, BurstBufferSettings
from parsl.config import Config
from parsl.launchers import SimpleLauncher
from parsl.providers import LocalProvider

DIRECTORY = Path(os.environ.get("BB_DIRECTORY", tempfile.gettempdir()))
NODE = os.environ.get("BB_NODE")
RESULTS = list(filter(None, [os.environ.get("BB_RESULTS")]))


def fresh_config():
    """Return a new configuration, as the suite asks for one."""
    return Config(
        executors=[
            BurstBufferExecutor(
                label="htex_burst_buffer",
                loopback_address="::1",
                worker_debug=True,
                cores_per_worker=1,
                encrypted=True,
                provider=LocalProvider(init_blocks=1, max_blocks=1, launcher=SimpleLauncher()),
                burst_buffer=BurstBufferSettings(
                    directory=None if NODE else DIRECTORY,
                    capacity="64MiB",
                    results=RESULTS,
                    node_directory=NODE,
                    node_capacity="64MiB",
                ),
            )
        ],
        strategy="none",
    )
