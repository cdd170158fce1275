"""A node's IOnode and master: processes beside its agent, started again when they are killed."""

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from bbflow.errors import BbflowError
from bbflow.files.names import STREAMS_URL
from bbflow.files.pieces import IONODE_FILES
from bbflow.host.belongings import is_made, make
from bbflow.landing.embedded import own_directory
from bbflow.net.contact import NodeAddress, claim_master
from bbflow.net.listen import LOOPBACK
from bbflow.store.shared_room import NodeRoom

PAUSE_S = 0.2
END_S = 30.0
STREAMS = "/streams"
"""Where the streams of the same nodes are seen."""
STREAMS_SHARE = 32
"""This part of a node may be what was read of streams."""
REFRESH_S = 0.5
"""How old what is seen of a stream may be."""


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
    listen
        Where all servers listen, and their certificate, as options.
    capacity
        Bytes that streams and files of this node may take together.
    files_capacity
        Bytes that files may take of it at most.
    ionode
        Options of ``bbflow files ionode``, beside these.
    master
        Those of ``bbflow files master``; it is started if its subtree has none yet.
    subtree
        Which subtree. Who has the master of all files also shows the streams below `STREAMS`.
    """

    def __init__(
        self,
        name: str,
        contact: Path,
        directory: Path,
        key: str,
        listen: Sequence[str],
        capacity: int,
        files_capacity: int,
        ionode: Sequence[str],
        master: Sequence[str],
        subtree: str,
    ) -> None:
        self._closing = threading.Event()
        self._keepers: list[threading.Thread] = []
        self._name, self._contact, self._directory, self._key, self._listen = name, contact, directory, key, listen
        is_first = self._keep_master(subtree, "master", master)
        streams = capacity // STREAMS_SHARE if is_first and subtree == "/" else 0
        room = own_directory(directory, f"{name}-files", contact) / "room"
        make(room.parent, *IONODE_FILES)
        self.room = NodeRoom(room, capacity - streams)
        """What is left for the files, and for the streams' pool."""
        most = str(min(files_capacity, capacity - streams))
        words = ["--subtree", subtree, "--capacity", most, "--room", str(room), *ionode]
        self._keep("ionode", "files", words, self._name_room_again)
        if streams:
            storage = ["--storage", f"{STREAMS_URL}{contact}"]
            if self._keep_master(STREAMS, "streams-master", [*storage, "--read-only", "--refresh", str(REFRESH_S)]):
                self._keep("ionode", "streams", ["--subtree", STREAMS, "--capacity", str(streams), *storage])

    def _keep_master(self, subtree: str, kind: str, words: Sequence[str]) -> bool:
        """Keep the master of a subtree, if it has none yet."""
        directory = own_directory(self._directory, f"{self._name}-{kind}", self._contact)
        place = NodeAddress(self._name, socket.gethostname(), "", str(directory), self._key, LOOPBACK)
        is_first = claim_master(self._contact, subtree, place)
        if is_first:
            self._keep("master", kind, ["--subtree", subtree, *words])
        return is_first

    def _name_room_again(self) -> None:
        """Have the room's file where the IOnode looks for it, whatever has become of its directory."""
        with suppress(BbflowError, OSError):  # the IOnode fails by the same, and says so
            make(own_directory(self._directory, f"{self._name}-files", self._contact), *IONODE_FILES)
            self.room.name_again()

    def _keep(self, server: str, kind: str, words: Sequence[str], prepare: Callable[[], None] = lambda: None) -> None:
        directory = own_directory(self._directory, f"{self._name}-{kind}", self._contact)
        common = ["--contact", str(self._contact), "--name", self._name, "--directory", str(directory), "--with-parent"]
        command = [sys.executable, "-m", "bbflow", "files", server, *common, *self._listen, *words]
        work = (command, directory, prepare)
        keeper = threading.Thread(target=self._run, args=work, name=f"bbflow-keep-{kind}", daemon=True)
        self._keepers.append(keeper)
        keeper.start()

    def _run(self, command: Sequence[str], directory: Path, prepare: Callable[[], None]) -> None:
        """Start a server again and again, unless it was asked to end and to keep nothing: a signal doesn't."""
        while not self._closing.is_set():
            prepare()
            # Signals to the whole group, such as Ctrl-C, are for the node: it ends its companions in order.
            process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
            while process.poll() is None and not self._closing.is_set():
                time.sleep(PAUSE_S)
            # The end of its input is how a companion learns that the node ends, also if that is killed.
            if process.stdin is not None:
                process.stdin.close()
            # A signal ends a server with 0, too; one that was asked to keep nothing has removed its directory's mark.
            if process.wait(END_S) == 0 and not is_made(directory):
                return

    def close(self) -> None:
        """End the servers; what they keep stays."""
        self._closing.set()
        for keeper in self._keepers:
            keeper.join(END_S)
