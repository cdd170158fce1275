"""Nodes whose connection has broken: an agent that was killed is started again on what it holds, and is waited for."""

import errno
import os
import socket
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from bbflow.errors import NodeError
from bbflow.host.log import tell
from bbflow.landing.client import NodeClient
from bbflow.net.contact import NodeAddress, read_contact

LOOK_S = 0.05
"""How often a node that is waited for is tried."""


class Returning:
    """Waits for nodes to come back; safe in several threads.

    Parameters
    ----------
    contact
        The contact file, which says where they are then.
    back_s
        How long one may take (seconds).
    is_silent
        Whether someone else says who is waited for.
    """

    def __init__(self, contact: Path, back_s: float, *, is_silent: bool = False) -> None:
        self._contact, self._back_s, self._is_silent = contact, back_s, is_silent
        self._over = threading.Event()
        self._said: set[tuple[str, str]] = set()

    def until_s(self) -> float:
        """Until when a node that has just been missed is waited for (`time.monotonic`)."""
        return time.monotonic() + self._back_s

    def client(self, node: NodeAddress, error: NodeError, until_s: float) -> NodeClient:
        """Connect to a node again.

        Parameters
        ----------
        node
            Where it was.
        error
            By what it was missed.
        until_s
            How long it is waited for.

        Raises
        ------
        NodeError
            `error`, if it doesn't come back in time, or in another directory, or it isn't waited for any more; at once
            if it has ended with all that it held, as a run's own nodes do with a run that is killed.
        """
        while time.monotonic() < until_s and not self._over.wait(LOOK_S):
            if node.host == socket.gethostname() and _is_gone(node.directory):
                self._say(node.name, "has ended, and what it held is gone: it isn't waited for")
                break
            self._say(node.name, f"doesn't answer: it has {self._back_s:g} s to be started again")
            with suppress(NodeError, OSError):  # a contact file that can't be read now may be read later
                for now in read_contact(self._contact):
                    # One that is started again may have another port; in another directory it has no steps.
                    if replace(now, tcp=node.tcp) == node:
                        return NodeClient(now)
        raise error

    def _say(self, name: str, what: str) -> None:
        if (name, what) not in self._said and not self._is_silent:
            self._said.add((name, what))
            tell(f"BB node {name} {what}")

    def end(self) -> None:
        """Wait no more."""
        self._over.set()


def _is_gone(directory: str) -> bool:
    try:
        os.stat(directory)
    except OSError as error:  # that it can't be looked at, as on a disk that fails, isn't that it is gone
        return error.errno in (errno.ENOENT, errno.ENOTDIR)
    return False
