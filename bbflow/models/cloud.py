"""How many I/O nodes to rent before cloud storage: CloudBB's Time x Cost model.

Xu, Sato, Matsuoka, "Design and Modelling of Cloud-based Burst Buffers", section 3. The paper gives the quantities,
its two assumptions and the results (tables 2 and 3), but prints no formula; this one is a reconstruction, which gives
every row of table 3.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bbflow.errors import ConfigError
from bbflow.models.checks import check_above_zero, check_amounts, check_shares


@dataclass(frozen=True, slots=True)
class CloudProfile:
    """What an application does with its files, and where it runs."""

    input_bytes: float
    """Read from cloud storage once (the paper's D_input)."""
    buffered_bytes: float
    """That the burst buffer can hold: read and written again and again (D_buff)."""
    compute_s: float
    """Computing of all tasks together, on one compute node (T_C)."""
    serial_share: float
    """Share of the tasks that run one after the other (r), 0 to 1."""
    cloud_bytes_per_s: float
    """Mean throughput of cloud storage (Thr_cloud)."""
    node_bytes_per_s: float
    """Throughput of one I/O node to one compute node (Thr_m)."""
    price_per_s: float = 1.0
    """Of a node of any kind, in any currency (P_C = P_I = P_M)."""

    def __post_init__(self) -> None:
        check_above_zero(cloud_bytes_per_s=self.cloud_bytes_per_s, node_bytes_per_s=self.node_bytes_per_s)
        check_shares(serial_share=self.serial_share)
        check_amounts(
            input_bytes=self.input_bytes,
            buffered_bytes=self.buffered_bytes,
            compute_s=self.compute_s,
            price_per_s=self.price_per_s,
        )


@dataclass(frozen=True, slots=True)
class CloudChoice:
    """What renting some nodes comes to."""

    compute_nodes: int
    """Rented for the application (N_C)."""
    io_nodes: int
    """Rented for its files (N_I)."""
    masters: int
    """Rented for metadata (N_M)."""
    time_s: float
    """How long the application takes."""
    cost: float
    """Of all nodes for that time, in the profile's currency."""

    @property
    def time_cost(self) -> float:
        """Time x Cost, what the model makes least."""
        return self.time_s * self.cost


def cloud_time_s(profile: CloudProfile, compute_nodes: int, io_nodes: int) -> float:
    """Return how long the application takes.

    ``T = D_input / Thr_cloud + T_C (r + (1 - r) / N_C) + D_buff / Thr_m (r + (1 - r) / min(N_C, N_I))``: the serial
    share of computing and of buffered I/O is done by one node, the rest by all. A compute node keeps one I/O node busy,
    and several share one (the paper's assumption 2), so the smaller number counts.

    Raises
    ------
    ConfigError
        If a number of nodes is below 1.
    """
    if min(compute_nodes, io_nodes) < 1:
        raise ConfigError(f"{compute_nodes} compute nodes and {io_nodes} I/O nodes: both must be 1 or more")
    r = profile.serial_share
    input_s = profile.input_bytes / profile.cloud_bytes_per_s
    compute_s = profile.compute_s * (r + (1 - r) / compute_nodes)
    buffered_s = profile.buffered_bytes / profile.node_bytes_per_s * (r + (1 - r) / min(compute_nodes, io_nodes))
    return input_s + compute_s + buffered_s


def cloud_choices(
    profile: CloudProfile, compute_nodes: Iterable[int], io_nodes: Iterable[int], masters: int = 1
) -> list[CloudChoice]:
    """Return every combination of numbers of nodes, with ``cost = p T (N_C + N_I + N_M)``."""
    io_nodes = list(io_nodes)
    times = [(n_c, n_i, cloud_time_s(profile, n_c, n_i)) for n_c in compute_nodes for n_i in io_nodes]
    return [
        CloudChoice(n_c, n_i, masters, time_s, profile.price_per_s * time_s * (n_c + n_i + masters))
        for n_c, n_i, time_s in times
    ]


def least_time_cost(choices: Sequence[CloudChoice]) -> CloudChoice:
    """Return the choice with the least Time x Cost; of equals the one with fewer nodes.

    Raises
    ------
    ConfigError
        If there is none.
    """
    if not choices:
        raise ConfigError("there is no number of nodes to choose from")
    return min(choices, key=lambda choice: (choice.time_cost, choice.compute_nodes + choice.io_nodes))
