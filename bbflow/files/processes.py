"""Being a master or an IOnode: a process that serves until it is told to stop."""

import os
import signal
import socket
import sys
import threading
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from bbflow.errors import NodeError
from bbflow.files.giving_way import GivingWay
from bbflow.files.ionode.ionode import IoNode, IoNodeSettings
from bbflow.files.ionode.landed_streams import storage_at
from bbflow.files.master.database import Database
from bbflow.files.master.master import Master
from bbflow.files.master.serving import SOCKET_NAME, MasterServer
from bbflow.files.options import Options
from bbflow.files.pieces import IONODE_FILES
from bbflow.host.belongings import make, remove
from bbflow.host.log import log
from bbflow.net.contact import NodeAddress, add_master, remove_master
from bbflow.net.peers import Endpoint

DATABASE_NAME = "metadata.db"
MASTER_FILES = (f"{DATABASE_NAME}*", SOCKET_NAME)


def run_master(
    contact: Path, name: str, directory: Path, endpoint: Endpoint, options: Options, *, with_parent: bool
) -> None:
    """Be a master until a signal, or the end of standard input.

    Parameters
    ----------
    contact
        The contact file that it stands in while it runs.
    name
        Its name there.
    directory
        Where its database and its socket are; an existing database is continued.
    endpoint
        How it lets peers in.
    options
        How it keeps files; its number is that of its files, or a new one.
    with_parent
        Whether it also ends when standard input ends.

    Raises
    ------
    ConfigError
        If the directory has something else in the database's place, or the files of another subtree.
    NodeError
        If another master serves the directory.
    CapacityError
        If the directory's file system is full at its start, or still at its end.
    """
    make(directory, *MASTER_FILES)
    authority = str(endpoint.certificate.authority.resolve()) if endpoint.certificate else ""
    where = (name, socket.gethostname(), str(directory / SOCKET_NAME), str(directory), endpoint.key)
    database = Database(directory / DATABASE_NAME)  # first of all: it is open once only
    own = database.number(options.subtree)
    number = add_master(contact, options.subtree, NodeAddress(*where), own)  # a place there, before it can be reached
    database.keep_number(options.subtree, number)
    master = Master(database, replace(options, number=number), time.time)
    server = MasterServer(master, name, directory, endpoint, contact, sys.stdin.fileno() if with_parent else None)
    server.stop_at_signals()
    add_master(contact, options.subtree, NodeAddress(*where, server.tcp, authority), number)
    log(f"bbflow files master of {options.subtree}: ready in {directory}")
    with ExitStack() as leaving:  # whatever fails of this, the rest is done
        leaving.callback(lambda: remove_master(contact, options.subtree, str(directory), stays=not master.is_over))
        leaving.callback(database.close)
        leaving.callback(master.take_out)
        leaving.callback(master.expire)
        server.run()
    if master.is_over:
        remove(directory)


def run_ionode(
    settings: IoNodeSettings, endpoint: Endpoint, storage: str, giving_way: GivingWay, *, with_parent: bool
) -> None:  # fmt: skip
    """Be an IOnode until a signal, or the end of standard input; its pieces stay where they are.

    Parameters
    ----------
    settings
        Where it is, and what it may use.
    endpoint
        How it lets peers in.
    storage
        The shared storage's URL; empty for none.
    giving_way
        When transfers may run.
    with_parent
        Whether it also ends when standard input ends.

    Raises
    ------
    NodeError
        If another IOnode serves the directory, or that is removed.
    """
    block_signals()
    make(settings.directory, *IONODE_FILES)
    node = IoNode(settings, endpoint, storage_at(storage), giving_way)
    node.start()
    threading.Thread(target=node.follow, name="bbflow-master", daemon=True).start()
    log(f"bbflow files ionode {settings.name}: ready in {settings.directory}")
    if with_parent:
        threading.Thread(target=_until_end_of_input, args=(os.getpid(),), daemon=True).start()
    # Waited for, not handled: a handler would run between any two lines of a thread that holds locks.
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    giving_way.close()
    if node.is_over:
        remove(settings.directory)
    if node.is_removed:
        what = f"{settings.directory} was removed while IOnode {settings.name} ran, with all that lay there"
        raise NodeError(f"{what}: start it again")


def block_signals() -> None:
    """Hold the signals that end an IOnode until `run_ionode`; to be called before any thread is started."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})


def _until_end_of_input(process: int) -> None:
    while os.read(sys.stdin.fileno(), 64):  # not its buffer: the interpreter can't end while a thread has that
        pass
    os.kill(process, signal.SIGTERM)
