"""Copies steps through a plain TCP socket into memory that is there already; run by landing_tcp.py.

Usage: socket_copy.py receive ADDRESS STEPS | send ADDRESS PORT STEPS
"""

import json
import mmap
import os
import socket
import sys
import tempfile
import time

STEP_BYTES = 64 << 20


def receive(address: str, steps: int) -> None:
    """Print the port, then take steps in and confirm each."""
    with tempfile.TemporaryFile(dir="/dev/shm") as file:
        file.truncate(STEP_BYTES)
        memory = memoryview(mmap.mmap(file.fileno(), STEP_BYTES))
        memory[:] = bytes(STEP_BYTES)
        with socket.create_server((address, 0)) as listener:
            print(listener.getsockname()[1], flush=True)
            peer, _ = listener.accept()
            with peer:
                for _ in range(steps):
                    have = 0
                    while have < STEP_BYTES:
                        have += peer.recv_into(memory[have:])
                    peer.sendall(b"!")


def send(address: str, port: int, steps: int) -> None:
    """Print the seconds of each step."""
    data, times = os.urandom(STEP_BYTES), []
    with socket.create_connection((address, port)) as sender:
        for _ in range(steps):
            begun = time.perf_counter()
            sender.sendall(data)
            sender.recv(1)
            times.append(time.perf_counter() - begun)
    print(json.dumps(times))


if __name__ == "__main__":
    mode, address, *numbers = sys.argv[1:]
    {"receive": receive, "send": send}[mode](address, *map(int, numbers))
