"""The drain gives way to the I/O phases of other applications, and announces its own."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from bbflow.drain.drain_task import Drained, DrainWork, drain_steps
from bbflow.phases import BoardSource, io_phase
from bbflow.staging.policies import Policy
from bbflow.staging.share import Share
from bbflow.staging.watched import WatchedGate

APPLICATION = "bbflow drain"
"""Who is in the phase that the drain announces."""


def drain_giving_way(work: DrainWork, policy: Policy, phases: Path | None) -> Drained:
    """Write raw steps as a policy allows.

    Parameters
    ----------
    work
        What to write.
    policy
        How to give way.
    phases
        Where phases are announced; nowhere if None.
    """
    policy = Share(policy.max_delay_s, policy=policy, number=work.share, fetchers=work.shares, nodes=1)
    with ExitStack() as stack:
        return drain_steps(work, stack.enter_context(giving_way(policy, phases)))


@contextmanager
def giving_way(policy: Policy, phases: Path | None) -> Iterator[Callable[[int], AbstractContextManager[None]]]:
    """Yield a gate for the drain; from the first chunk that passes, the drain's own phase is announced."""
    # Without its own phase: it would wait for itself.
    others = None if phases is None else BoardSource(phases, ignore=[APPLICATION])
    with ExitStack() as stack:
        gate = stack.enter_context(WatchedGate(policy, others).watched())
        unannounced = [] if phases is None else [io_phase(APPLICATION, phases)]

        @contextmanager
        def chunk(size_bytes: int) -> Iterator[None]:
            with gate.chunk(size_bytes):
                if unannounced:
                    stack.enter_context(unannounced.pop())
                yield

        yield chunk
