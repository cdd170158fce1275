"""A node's IOnode and master: processes beside its agent, started again when they are killed."""

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from bbflow.landing.contact import NodeAddress, claim_master
from bbflow.landing.embedded import own_directory
from bbflow.landing.listen import LOOPBACK

PAUSE_S = 0.2
END_S = 30.0


class Companions:
    """The servers of the files on one node; they end with this process.

    Parameters
    ----------
    name
        The node's.
    contact
        The contact file.
    directory
        Where they make directories of their own.
    key
        The contact file's key.
    ionode
        Options of ``bbflow files ionode``, beside name, directory and contact file.
    master
        Those of ``bbflow files master``; it is started if its subtree has none yet.
    subtree
        Which subtree.
    """

    def __init__(
        self,
        name: str,
        contact: Path,
        directory: Path,
        key: str,
        ionode: Sequence[str],
        master: Sequence[str],
        subtree: str,
    ) -> None:
        self._closing = threading.Event()
        self._keepers: list[threading.Thread] = []
        self.directories = {kind: own_directory(directory, f"{name}-{kind}", contact) for kind in ("files", "master")}
        """Where they keep what they have."""
        common = ["--contact", str(contact), "--name", name, "--subtree", subtree, "--with-parent"]
        place = NodeAddress(name, socket.gethostname(), "", str(self.directories["master"]), key, LOOPBACK)
        if claim_master(contact, subtree, place):
            self._keep("master", [*common, "--directory", str(self.directories["master"]), *master])
        self._keep("ionode", [*common, "--directory", str(self.directories["files"]), *ionode])

    def _keep(self, kind: str, words: Sequence[str]) -> None:
        command = [sys.executable, "-m", "bbflow", "files", kind, *words]
        keeper = threading.Thread(target=self._run, args=(command,), name=f"bbflow-keep-{kind}", daemon=True)
        self._keepers.append(keeper)
        keeper.start()

    def _run(self, command: Sequence[str]) -> None:
        """Start a server again and again, unless it ends by itself as it was asked to."""
        while not self._closing.is_set():
            # Signals to the whole group, such as Ctrl-C, are for the node: it ends its companions in order.
            process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
            while process.poll() is None and not self._closing.is_set():
                time.sleep(PAUSE_S)
            if process.stdin is not None:
                process.stdin.close()
            if process.wait(END_S) == 0:
                return

    def close(self) -> None:
        """End the servers; what they keep stays."""
        self._closing.set()
        for keeper in self._keepers:
            keeper.join(END_S)
