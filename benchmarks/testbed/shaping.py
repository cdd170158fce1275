"""The storage host's link: half-duplex, so that what one client reads, another can't write."""

from testsupport.namespaces import Hosts

CAP_BITS_PER_S = 800_000_000
CAP_BYTES_PER_S = CAP_BITS_PER_S / 8


def make_half_duplex(hosts: Hosts, rate_bits_per_s: int = CAP_BITS_PER_S) -> None:
    """Send both directions of the storage host's link through one device of a fixed rate.

    Two ordinary full-duplex directions wouldn't contend: the writer fills one, the readers the other. Both are
    redirected to one intermediate device (ifb), whose hierarchical token bucket passes `rate_bits_per_s` in sum.
    TCP's congestion control stays the machine's own.
    """
    everything = "u32 match u32 0 0 action mirred egress redirect dev both"
    for command in (
        "ip link add both type ifb",
        "ip link set both up",
        "tc qdisc add dev both root handle 1: htb default 1 r2q 1000",
        f"tc class add dev both parent 1: classid 1:1 htb rate {rate_bits_per_s}bit burst 256k cburst 256k",
        "tc qdisc add dev eth0 clsact",
        f"tc filter add dev eth0 ingress protocol all {everything}",
        f"tc filter add dev eth0 egress protocol all {everything}",
    ):
        hosts.run("storage", command)


def set_rate(hosts: Hosts, rate_bits_per_s: int) -> None:
    """Set the storage host's link to another rate; it must be half-duplex already."""
    rate = f"htb rate {rate_bits_per_s}bit burst 256k cburst 256k"
    hosts.run("storage", f"tc class change dev both parent 1: classid 1:1 {rate}")


def queue_for_many(hosts: Hosts) -> None:
    """Make the link's queue long enough for very many connections: its device's own takes 32 packets.

    Each of TCP BBR's connections keeps at least four under way; with more than the queue takes, one of them may get
    nothing through for half a minute, and ends.
    """
    hosts.run("storage", "tc qdisc replace dev both parent 1:1 pfifo limit 1000")
