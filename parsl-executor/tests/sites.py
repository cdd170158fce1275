"""A place for Parsl apps to run in: file system, burst buffer and configurations."""

from dataclasses import replace

import parsl
from bbflow_parsl import BurstBufferExecutor, BurstBufferMixin, BurstBufferSettings
from bbflow_parsl.sweeping import ALIVE
from parsl.config import Config
from parsl.executors import ThreadPoolExecutor
from parsl.providers import LocalProvider

from testsupport.moments import bytes_at_once, files_below


class Threads(BurstBufferMixin, ThreadPoolExecutor):
    """The mix-in on the quickest executor there is: real, and without worker processes."""


class Site:
    """A 'PFS', a burst buffer, and Parsl's configurations on them."""

    def __init__(self, root):
        self.root = root
        self.pfs, self.bb, self.work, self.results = (root / name for name in ("pfs", "bb", "pfs/work", "pfs/results"))
        for path in (self.pfs, self.bb):
            path.mkdir()
        self.burst_buffer = BurstBufferSettings(
            directory=self.bb, capacity="1MiB", intermediate=[str(self.work)], results=[str(self.results)]
        )

    def write(self, name, content):
        path = self.pfs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        return path

    def threads(self, workers=2, **changes):
        return Threads(max_threads=workers, burst_buffer=replace(self.burst_buffer, **changes))

    def htex(self, workers=1, provider=None, **changes):
        return BurstBufferExecutor(
            label="htex",
            address="127.0.0.1",
            encrypted=False,
            max_workers_per_node=workers,
            cores_per_worker=1e-3,
            heartbeat_period=1,
            heartbeat_threshold=60,
            provider=provider or LocalProvider(init_blocks=1, max_blocks=1),
            burst_buffer=replace(self.burst_buffer, **changes),
        )

    def load(self, executor, **options):
        run = {"run_dir": str(self.root / "runinfo"), "strategy": "none", "initialize_logging": False}
        config = Config(executors=[executor], strategy_period=0.2, **(run | options))  # workers come after one period
        return parsl.load(config)

    def files_on_bb(self):
        """Return every file on the burst buffer but the locks."""
        return sorted(path for path in files_below(self.bb) if path.name not in (ALIVE, "lock"))

    def bytes_on_bb(self):
        """Return how many bytes those files have together."""
        return bytes_at_once(self.files_on_bb())
