"""What the drain's delay policy needs, imported by those runs alone that have one."""

from collections.abc import Callable
from functools import partial

from bbflow.configuring.settings import RawConfig
from bbflow.drain.drain_task import Drained, DrainWork, drain_steps


def check_policy(raw: RawConfig) -> None:
    """Check that there is such a policy.

    Raises
    ------
    ConfigError
        If not, or it could never see a phase.
    """
    if raw.policy != RawConfig().policy:
        from bbflow.staging.policies import checked_policy

        checked_policy(raw.policy, raw.phases)


def gives_way(raw: RawConfig) -> bool:
    """Whether what a drain task calls may wait for others."""
    return raw.policy != RawConfig().policy or raw.phases is not None


def writing(raw: RawConfig) -> Callable[[DrainWork], Drained]:
    """Return what a drain task calls.

    Raises
    ------
    ConfigError
        As `check_policy`.
    """
    if not gives_way(raw):
        return drain_steps
    from bbflow.staging.policies import checked_policy
    from bbflow.transit.driver.drain_gate import drain_giving_way

    return partial(drain_giving_way, policy=checked_policy(raw.policy, raw.phases), phases=raw.phases)
