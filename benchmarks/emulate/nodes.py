"""Several BB nodes in one process, each with an agent, sockets, a pool and an index of its own, in a thread of its own.

Run by `bed.py`; they end, and what they keep goes, when standard input ends.
"""

import argparse
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bbflow.host.belongings import remove
from bbflow.landing.server import SOCKET_NAME, Server
from bbflow.net.contact import NodeAddress, add_node, contact_key
from bbflow.net.peers import Endpoint
from bbflow.store.node import NodeStore

LOOK_S = 1.0
"""How often a node that isn't asked anything looks whether it is to end, at the least."""


def main() -> None:
    """Serve."""
    parser = argparse.ArgumentParser()
    parser.add_argument("contact", type=Path)
    for name in ("first", "count", "capacity"):
        parser.add_argument(name, type=int)
    options = parser.parse_args()
    with serving(options.contact, options.first, options.count, options.capacity):
        print("ready", flush=True)
        sys.stdin.read()


@contextmanager
def serving(contact: Path, first: int, count: int, capacity: int) -> Iterator[None]:
    """Serve some nodes, in directories beside the contact file; to be called in the main thread.

    Parameters
    ----------
    contact
        The contact file.
    first, count
        Number of the first node, and how many there are.
    capacity
        Bytes of each pool.
    """
    endpoint = Endpoint(contact_key(contact))
    with ExitStack() as stack:
        ended = threading.Event()
        for number in range(first, first + count):
            name = f"bb{number:04d}"
            directory = contact.parent / name
            stack.callback(remove, directory)
            store = NodeStore(directory, capacity)
            stack.callback(store.close)
            server = Server(store, name, endpoint)
            stack.callback(server.close)
            thread = threading.Thread(target=_serve, args=(server, ended), name=name)
            thread.start()
            stack.callback(thread.join)
            address = (name, socket.gethostname(), str(directory / SOCKET_NAME), str(directory), endpoint.key)
            add_node(contact, NodeAddress(*address, server.tcp))
        stack.callback(ended.set)
        yield


def _serve(server: Server, ended: threading.Event) -> None:
    while not ended.is_set():
        server.turn(LOOK_S)


if __name__ == "__main__":
    main()
