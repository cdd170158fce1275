"""Dask's worker, but for what it does when it has lost its scheduler: it looks for it, and is started again.

By itself it ends for good, and its nanny with it, as if it had been told to.
"""

import asyncio
import json
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import dask
from distributed import Status, Worker
from distributed.comm.core import connect

from bbflow.host.log import tell

SCHEDULER_FILE = "bbflow.scheduler-file"
"""What Dask's configuration, which a nanny hands on to its workers, calls the scheduler file."""
LOST = {"worker-handle-scheduler-connection-broken", "worker-heartbeat-missing"}
"""Dask's reasons to close a worker that nobody has told to end."""
LOST_S = 3600.0
"""How long a scheduler is looked for that doesn't answer."""
UNNAMED_S = 60.0
"""The same without a scheduler file: it goes with a scheduler that ends in order, and comes with the next one."""
LOOK_S = 1.0
ANSWER_S = 5.0


class LastingWorker(Worker):
    """A worker whose nanny starts it again, with nothing of what it had, once a scheduler answers."""

    def __init__(self, *given: Any, **named: Any) -> None:
        # Its nanny knows the first scheduler's address only.
        named["scheduler_file"] = dask.config.get(SCHEDULER_FILE)
        super().__init__(*given, **named)

    async def close(  # type: ignore[override]  # as Dask overrides it itself
        self, timeout: float = 30, executor_wait: bool = True, nanny: bool = True, reason: str = "worker-close"
    ) -> str | None:
        """End, as `Worker.close` does; a worker that is lost only when there is a scheduler again, or won't be."""
        if reason in LOST and self.nanny and self.status == Status.running:
            self.status = Status.paused  # nobody waits for what it has yet to begin
            nanny = not await self._is_found()
        elif reason in LOST and self.status == Status.paused:
            return None  # it is looking already
        return await super().close(timeout, executor_wait, nanny, reason)

    async def _is_found(self) -> bool:
        """Look for a scheduler; false if none answers in time, or none is named any more."""
        for callback in self.periodic_callbacks.values():
            callback.stop()
        tell(f"this Dask worker has lost its scheduler, and looks for one for {LOST_S / 60:.0f} minutes")
        began_s = named_s = time.monotonic()
        while time.monotonic() < min(began_s + LOST_S, named_s + UNNAMED_S):
            # First: the scheduler's word that it is to end may be on its way, and ends it meanwhile.
            await asyncio.sleep(LOOK_S)
            with suppress(OSError, ValueError, KeyError):  # it isn't there, or just being written
                address = json.loads(Path(dask.config.get(SCHEDULER_FILE)).read_text())["address"]
                named_s = time.monotonic()
                comm = await connect(address, timeout=ANSWER_S, **self.connection_args)
                await comm.close()
                tell(f"the Dask scheduler at {address} answers: this worker is started again")
                return True
        tell("no Dask scheduler has come back: this worker ends")
        return False
