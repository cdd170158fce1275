"""Cables between hosts and their bridge that delay frames and lose some, for kernels without netem.

Run in the bridge's namespace; arguments are delay and jitter (seconds), the share that is lost, and the hosts'
namespaces by their port of the bridge: `python far_links.py 0.005 0.001 0.005 bbn0=bbflow-bed-1.0-bbn0 …`. It says when
all are in place.
"""

import fcntl
import json
import os
import random
import select
import struct
import subprocess
import sys
import time
from contextlib import suppress
from heapq import heappop, heappush
from itertools import count

TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
MOST_BYTES = 1 << 16


def tap(name):
    """Make an interface; what it sends is read from the descriptor, and what is written there it receives."""
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
    return descriptor


def ip(*words):
    """Run a command of ip; return what it says."""
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True).stdout


def replace_cable(number, port, host):
    """Put two interfaces in the place of a host's cable; return their descriptors, the bridge's and the host's."""
    near, far = f"near{number}", f"far{number}"
    ends = tap(near), tap(far)
    (own,) = json.loads(ip("-j", "-n", host, "address", "show", "dev", "eth0"))
    (address,) = (f"{one['local']}/{one['prefixlen']}" for one in own["addr_info"] if one["family"] == "inet")
    ip("link", "set", far, "address", own["address"], "netns", host)
    ip("link", "set", port, "nomaster")
    ip("-n", host, "link", "delete", "eth0")
    ip("-n", host, "address", "add", address, "dev", far)
    ip("-n", host, "link", "set", far, "up")
    ip("link", "set", near, "master", "br0", "up")
    return ends


def carry(ends, delay_s, jitter_s, loss):
    """Carry frames from end to end, until it is killed."""
    other = {own: other for pair in ends for own, other in (pair, pair[::-1])}
    poll, numbers, under_way, last_s = select.epoll(), count(), [], dict.fromkeys(other, 0.0)
    for end in other:
        poll.register(end, select.EPOLLIN)
    while True:
        wait_s = max(under_way[0][0] - time.monotonic(), 0.0) if under_way else None
        for end, _ in poll.poll(wait_s):
            with suppress(BlockingIOError):
                while frame := os.read(end, MOST_BYTES):
                    if random.random() >= loss:
                        due_s = time.monotonic() + delay_s + random.uniform(-jitter_s, jitter_s)
                        last_s[end] = max(due_s, last_s[end])  # none overtakes another
                        heappush(under_way, (last_s[end], next(numbers), other[end], frame))
        while under_way and under_way[0][0] <= time.monotonic():
            *_, end, frame = heappop(under_way)
            with suppress(OSError):  # it is full, or down
                os.write(end, frame)


def main(delay_s, jitter_s, loss, *hosts):
    """Do it."""
    ends = [replace_cable(number, *host.split("=")) for number, host in enumerate(hosts)]
    print("in place", flush=True)
    carry(ends, float(delay_s), float(jitter_s), float(loss))


if __name__ == "__main__":
    main(*sys.argv[1:])
