"""The agent's shell: one thread, one selector, the sockets around `Agent`."""

import os
import selectors
import shutil
import signal
import socket
import sys
import time
from pathlib import Path

from bbflow.errors import NodeError, ProtocolError
from bbflow.landing.agent import Agent, Reply
from bbflow.store.frames import FrameReader, encode
from bbflow.store.node import NodeStore

READ_BYTES = 1 << 20
SOCKET_NAME = "agent.sock"


class Connection:
    """A peer's socket with what is half read and half written."""

    def __init__(self, peer: socket.socket) -> None:
        peer.setblocking(False)
        self.socket = peer
        self.reader = FrameReader()
        self.unsent = bytearray()


class Server:
    """Serves one node until someone asks it to stop.

    Parameters
    ----------
    store
        What the node keeps.
    name
        The node's name.
    stop_at_eof
        A descriptor whose end also ends the server: an embedded node must not outlive its parent.

    Raises
    ------
    NodeError
        If another agent serves the directory.
    """

    def __init__(self, store: NodeStore, name: str, stop_at_eof: int | None = None) -> None:
        self._agent = Agent(store, name, socket.gethostname(), time.time)
        self._selector = selectors.DefaultSelector()
        self._connections: dict[int, Connection] = {}
        self.interrupted = False
        """Whether a signal or the parent's end stops it, not a request."""
        self._listener = _listen(store.directory / SOCKET_NAME)
        self._selector.register(self._listener, selectors.EVENT_READ)
        if stop_at_eof is not None:
            self._selector.register(stop_at_eof, selectors.EVENT_READ, "eof")
        # A signal must wake the selector, or `interrupt` is seen at the next message only.
        self._wakeup, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._selector.register(self._wakeup, selectors.EVENT_READ, "signal")
        signal.set_wakeup_fd(wake)

    def run(self) -> None:
        """Serve; returns when asked to stop."""
        while not self._agent.stopped and not self.interrupted:
            for key, _ in self._selector.select(self._timeout_s()):
                if key.data == "eof":
                    self.interrupted = not os.read(key.fd, 1)
                elif key.data == "signal":
                    os.read(key.fd, 64)
                elif key.fileobj is self._listener:
                    self._accept()
                else:
                    self._serve(key.fd)
            self._deliver(self._agent.expire())
        self._close()

    def interrupt(self) -> None:
        """Make `run` return soon; safe in a signal handler."""
        self.interrupted = True

    def _timeout_s(self) -> float | None:
        deadline_s = self._agent.next_deadline_s()
        return None if deadline_s is None else max(deadline_s - time.time(), 0.0)

    def _accept(self) -> None:
        peer, _ = self._listener.accept()
        self._connections[peer.fileno()] = Connection(peer)
        self._selector.register(peer, selectors.EVENT_READ)

    def _serve(self, descriptor: int) -> None:
        connection = self._connections.get(descriptor)
        if connection is None:
            return
        if connection.unsent:
            self._flush(descriptor, connection)
        try:
            data = connection.socket.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        try:
            for message in connection.reader.feed(data):
                self._deliver(self._agent.handle(descriptor, message))
        except ProtocolError as error:
            print(f"bbflow node: cut off a peer: {error}", file=sys.stderr, flush=True)
            data = b""
        if not data:
            self._hang_up(descriptor)

    def _deliver(self, replies: list[Reply]) -> None:
        for descriptor, message in replies:
            connection = self._connections.get(descriptor)
            if connection is not None:
                connection.unsent += encode(message)
                self._flush(descriptor, connection)

    def _flush(self, descriptor: int, connection: Connection) -> None:
        try:
            sent = connection.socket.send(connection.unsent, socket.MSG_NOSIGNAL)
            del connection.unsent[:sent]
        except BlockingIOError:
            pass
        except OSError:
            connection.unsent.clear()  # the peer is gone: its end shows at the next read
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.unsent else 0)
        self._selector.modify(descriptor, events)

    def _hang_up(self, descriptor: int) -> None:
        connection = self._connections.pop(descriptor)
        self._selector.unregister(descriptor)
        connection.socket.close()
        self._deliver(self._agent.disconnect(descriptor))

    def _close(self) -> None:
        for connection in self._connections.values():
            connection.socket.close()
        self._listener.close()
        self._selector.close()


def _listen(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.connect(str(path))
        raise NodeError(f"another agent serves {path.parent}: stop it first")
    except (FileNotFoundError, ConnectionRefusedError):
        path.unlink(missing_ok=True)
    listener.close()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(str(path))
    except OSError as error:
        raise NodeError(f"can't listen at {path} ({error}): give a shorter --directory") from None
    listener.listen(1024)
    return listener


def serve(directory: Path, name: str, capacity: int, *, with_parent: bool = False) -> None:
    """Run one node in this process until it is told to stop.

    Its directory goes with it, unless a signal or a failure ends it while it holds steps: a node started again
    on the same directory carries on with them.

    Parameters
    ----------
    directory
        The node's directory.
    name
        The node's name.
    capacity
        Bytes of its pool.
    with_parent
        An embedded node: it also ends when standard input ends, and always cleans up.
    """
    store = NodeStore(directory, capacity)
    server = Server(store, name, sys.stdin.fileno() if with_parent else None)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: server.interrupt())
    print(f"bbflow node {name}: ready in {directory}", file=sys.stderr, flush=True)
    may_stay = not with_parent
    try:
        server.run()
        may_stay = may_stay and server.interrupted
    finally:
        store.close()
        held = sum(len(stream.steps) for stream in store.streams.values())
        if held and may_stay:
            print(f"bbflow node {name}: {held} steps stay in {directory}", file=sys.stderr, flush=True)
        else:
            shutil.rmtree(directory, ignore_errors=True)
        if with_parent and not any(path.is_dir() for path in directory.parent.iterdir()):
            shutil.rmtree(directory.parent, ignore_errors=True)
