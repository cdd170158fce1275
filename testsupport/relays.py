"""A relay in place of a server's Unix socket: what goes through it is held back, or lost, as a test says."""

import socket
import threading
from contextlib import contextmanager, suppress

from testsupport.waiting import until


class Relay:
    """Passes on what clients and a server say, over connections that begin from now on.

    Parameters
    ----------
    path
        The server's socket, which gets another name beside this one.
    """

    def __init__(self, path):
        self._server = path.with_name("behind.sock")
        path.rename(self._server)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._links = []
        self._losing, self._times = None, 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with suppress(OSError):
            while True:
                self._links.append(_Link(self, self._listener.accept()[0], self._server))

    @contextmanager
    def slow(self):
        """Hold back what is said from now on over connections that are there, which it gives, until the end."""
        links = list(self._links)
        for link in links:
            link.may_pass.clear()
        try:
            yield links
        finally:
            for link in links:
                link.may_pass.set()

    @contextmanager
    def held(self):
        """The same where nobody waits for it: return once the server has taken in what was held."""
        with self.slow() as links:
            yield
        held = [link for link in links if link.has_held]
        until(lambda: all(link.is_over for link in held), "the server to take in what was held")

    def cut(self):
        """Break all connections that are there."""
        for link in list(self._links):
            link.cut()

    def came(self):
        """Return how many connections have come."""
        return len(self._links)

    @contextmanager
    def losing_replies_to(self, request, times=1_000_000):
        """Break a connection by which something with these bytes is asked, once its reply is on its way."""
        self._losing, self._times = request, times
        try:
            yield
        finally:
            self._losing = None

    def loses(self, data):
        if self._losing is None or self._losing not in data or not self._times:
            return False
        self._times -= 1
        return True

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


class _Link:
    """One connection."""

    def __init__(self, relay, client, server):
        self._relay, self._client, self._server = relay, client, socket.socket(socket.AF_UNIX)
        self._server.connect(str(server))
        self.may_pass, self._loses = threading.Event(), False
        self.may_pass.set()
        self.has_held = self.is_over = False
        self._asking = threading.Thread(target=self._ask, daemon=True)
        self._asking.start()
        threading.Thread(target=self._answer, daemon=True).start()

    def cut(self):
        with suppress(OSError):  # it is over
            self._server.shutdown(socket.SHUT_RDWR)

    def _ask(self):
        with suppress(OSError):
            while data := self._client.recv(1 << 16):
                self.has_held = not self.may_pass.is_set()
                self.may_pass.wait()
                self._loses = self._loses or self._relay.loses(data)
                self._server.sendall(data)
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_WR)

    def _answer(self):
        with suppress(OSError):
            while (data := self._server.recv(1 << 16)) and not self._loses:
                with suppress(OSError):  # whoever has left hears nothing any more
                    self._client.sendall(data)
        with suppress(OSError):
            self._client.shutdown(socket.SHUT_RDWR)
        self._asking.join()
        self._client.close()
        self._server.close()
        self.is_over = True
