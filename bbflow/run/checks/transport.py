"""By which way blocks will go to the nodes, and what memory is registered for it."""

import os
import resource
from collections.abc import Callable, Sequence
from pathlib import Path

from bbflow.errors import NodeError
from bbflow.landing.fabric import providers
from bbflow.net.contact import NodeAddress
from bbflow.run.checks.finding import FINE, NOTE, Finding
from bbflow.units import format_bytes

GPU_DEVICES = "/dev/nvidiactl", "/dev/kfd"
"""Where NVIDIA's and AMD's drivers show."""


def check_transport(
    nodes: Sequence[NodeAddress],
    networks: Callable[[], list[str]] = providers,
    gpu_devices: Sequence[str] = GPU_DEVICES,
) -> list[Finding]:
    """Report how ranks of this host would land on nodes, with ``Transport=auto``.

    Parameters
    ----------
    nodes
        Those of the contact file; none: the run's own, on this host.
    networks
        Gives libfabric's providers that are faster than TCP.
    gpu_devices
        Files that are there where a GPU is.
    """
    has_gpus = any(Path(device).exists() for device in gpu_devices)
    here = os.uname().nodename
    own = [node.name for node in nodes if node.host == here]
    others = [node for node in nodes if node.host != here]
    found = (
        [Finding(FINE, "transport", f"{_named(own)}shared memory{_of_gpus() if has_gpus else ''}")]
        if own or not nodes
        else []
    )
    if deaf := [node.name for node in others if not node.tcp]:
        found.append(Finding(NOTE, "transport", f"{_named(deaf)}not from this host: start them with --listen ADDRESS"))
    if encrypted := [node.name for node in others if node.tcp and node.tls]:
        found.append(Finding(FINE, "transport", f"{_named(encrypted)}TCP with TLS"))
    if plain := [node.name for node in others if node.tcp and not node.tls]:
        found.append(_over_network(plain, networks, has_gpus=has_gpus))
    return found


def _over_network(names: list[str], networks: Callable[[], list[str]], *, has_gpus: bool) -> Finding:
    try:
        fast = networks()
    except NodeError as error:
        return Finding(NOTE, "transport", f"{_named(names)}TCP, since {error}".replace("since bbflow: ", "since "))
    if not fast:
        return Finding(FINE, "transport", f"{_named(names)}TCP; this host has no faster network")
    text = f"{_named(names)}libfabric ({fast[0]}) if they have it too, else TCP; each extent of a pool is registered "
    text += f"when it is granted ({_lockable()} here)"
    if has_gpus:
        text += "; blocks of a GPU go through the host's memory: FabricGpu=yes, untested on hardware, spares that"
    return Finding(FINE, "transport", text)


def _of_gpus() -> str:
    return f"; each extent that a GPU writes is registered with its driver ({_lockable()})"


def _lockable() -> str:
    most, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    return f"ulimit -l: {'unlimited' if most == resource.RLIM_INFINITY else format_bytes(most)}"


def _named(names: list[str]) -> str:
    return f"{', '.join(names)}: " if names else ""
