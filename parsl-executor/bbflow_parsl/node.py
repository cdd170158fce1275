"""A node's burst buffer as its worker processes use it: they copy in and out, and compute in turn."""

import hashlib
import logging
import os
import stat
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

import bbflow_parsl.sweeping as sweeping
from bbflow.errors import ConfigError
from bbflow.host.belongings import check_own
from bbflow.host.locks import lock
from bbflow.lending.borrower import Borrower, ExchangeError, LenderError, borrow, start_lender
from bbflow.lending.exchange import Exchange
from bbflow.net.contact import NodeAddress
from bbflow.phases import PhaseSource
from bbflow.staging.files import File
from bbflow.staging.gate import Gate
from bbflow.staging.policies import NoAction, Policy
from bbflow.staging.retry import Retry, persist
from bbflow.staging.share import Share
from bbflow.staging.shelf import Shelf
from bbflow.staging.transfers import Transfer, size_of, stage_out
from bbflow.staging.watched import WatchedGate
from bbflow.staging.watching import POLL_S
from bbflow.stores.sources import Sources
from bbflow.stores.urls import file_name
from bbflow_parsl.locks import one_of
from bbflow_parsl.nodestore import WHOLE, NodeFiles, shelves_of

logger = logging.getLogger(__name__)
MOST_POLL_S = 0.1


@dataclass(frozen=True)
class NodeSettings:
    """What the workers on the nodes need to know."""

    directory: str
    """On each node; variables in it are those of the worker."""
    run: str
    """Name of this run."""
    capacity_bytes: int
    """Room for files on a node."""
    nodes: int
    """How many there are at most."""
    workers_per_slot: int
    """Worker processes for each task that may compute: while one computes, the others fetch."""
    fetchers: int
    """Transfers of a node at once."""
    policy: Policy = field(default_factory=NoAction)
    """What transfers do while others are in an I/O phase."""
    phases: PhaseSource | None = None
    """Where those phases are seen."""
    is_direct: bool = False
    """Whether a task whose files can't fit reads them directly."""
    sources: Mapping[str, Mapping[str, Any]] | None = None
    """Protocol to options of its store."""
    retry: Retry = field(default_factory=Retry)
    """What happens after a failed read or write."""
    exchange: Exchange | None = None
    """What tells a node which others have a file; None if each copies it from its source."""


@dataclass(frozen=True, slots=True)
class Route:
    """One file of a task, and where it comes from or goes to."""

    url: str
    """As the task's File has it."""
    place: str
    """Where it lies, or is to lie, for all nodes: a path or a URL."""
    is_shared: bool = False
    """Whether that is on a burst buffer which all nodes share: there is no need to wait for the PFS."""
    size_bytes: int = 0
    """Room to reserve for an output."""
    is_stream: bool = False
    """Whether it is standard output or error, which is wanted of a task that failed too."""


@dataclass(frozen=True, slots=True)
class Copy:
    """An input as it is now."""

    route: Route
    """Which one."""
    name: str
    """Of its entry: another version has another name."""
    size_bytes: int
    """Its size."""
    is_known: bool
    """Whether its source tells versions apart, so that a copy on another node is known to be the same."""


class WorkerNode:
    """The burst buffer of the node that this process runs on.

    Parameters
    ----------
    settings
        As the run has it.

    Raises
    ------
    ConfigError
        If the directory can't be used.
    """

    def __init__(self, settings: NodeSettings) -> None:
        self._settings = settings
        parent = Path(os.path.expandvars(os.path.expanduser(settings.directory)))
        if "$" in str(parent):
            raise ConfigError(
                f"node_directory {settings.directory}: the worker has no such variable: set it (worker_init)"
            )
        try:
            self.directory, self._alive = _join(parent, f"bbflow-node-{os.getuid()}-", settings)
            self._store = NodeFiles(self.directory, settings.capacity_bytes)
        except OSError as error:
            raise ConfigError(f"can't use the node's burst buffer {parent}: {error.strerror}") from None
        self._sources = Sources(settings.sources)
        self._fetchers = settings.policy.most_fetchers(settings.fetchers)
        self._gates: dict[int, WatchedGate] = {}
        self._joining = threading.Lock()
        self._has_asked, self._borrows = False, cast(Borrower | None, None)

    def close(self) -> None:
        """Leave: the directory goes once the node's last process has left, or died."""
        if self._borrows is not None:
            self._borrows.close()
        os.close(self._alive)

    def look(self, routes: Sequence[Route]) -> list[Copy]:
        """Return the inputs that can be copied, as they are now; a path without a regular file is the task's business.

        Raises
        ------
        SourceError
            If a URL can't be had.
        """
        found = {}
        for route in routes:
            if "://" in route.place or os.path.isfile(route.place):
                facts = persist(partial(self._sources.facts, route.place), route.place, self._settings.retry)
                version = f"{route.place}\n{facts.version or uuid.uuid4().hex}\n{facts.size_bytes}"
                name = hashlib.sha256(version.encode()).hexdigest()[:24]
                found[route.place] = Copy(route, name, facts.size_bytes, facts.version is not None)
        return list(found.values())

    @contextmanager
    def holding(self, inputs: Sequence[Copy], outputs: Mapping[str, Route]) -> Iterator[None]:
        """Hold room for a task's files, by the names of their entries."""
        wanted = {copy.name: copy.size_bytes for copy in inputs}
        with self._store.holding(wanted | {name: route.size_bytes for name, route in outputs.items()}):
            yield

    def fetch(self, copy: Copy) -> Path:
        """Copy an input to the node, unless it is there or comes; it must be held."""
        with self._store.fetching(copy.name):
            path = self._store.whole(copy.name)
            return path or self._fetch(copy)

    def _fetch(self, copy: Copy) -> Path:
        """Copy an input from where it costs the least: what a shared burst buffer has costs the PFS nothing."""
        while not copy.route.is_shared and copy.is_known and (borrower := self._borrower()) is not None:
            try:
                with borrower.turn(copy.name) as lender:
                    return self._copied(copy) if lender is None else self._borrowed(copy, lender)
            except LenderError as error:
                logger.warning("%s: %s is asked for elsewhere", error, copy.route.place)
            except ExchangeError as error:
                self._borrow_no_more(error)
        return self._copied(copy)

    def _copied(self, copy: Copy) -> Path:
        entry = self._store.entry(copy.name)
        file = File(copy.route.place, copy.size_bytes)
        shelf = Shelf(entry / "coming")
        try:
            with self._gate(copy.route) as gate:
                receipt = Transfer(file, self._sources, shelf, gate, self._settings.retry).run()
        finally:
            shelf.close()
        return _let_appear(entry, receipt.path)

    def _borrowed(self, copy: Copy, lender: NodeAddress) -> Path:
        entry = self._store.entry(copy.name)
        coming = entry / "borrowed" / file_name(copy.route.place)
        coming.parent.mkdir(exist_ok=True)
        borrow(lender, copy.name, copy.size_bytes, coming)
        return _let_appear(entry, coming)

    def _borrower(self) -> Borrower | None:
        """Return the way to other nodes' copies, if there is one."""
        with self._joining:
            if self._settings.exchange is not None and not self._has_asked:
                self._has_asked = True
                try:
                    self._borrows = Borrower(self._settings.exchange, self.directory)
                except ExchangeError as error:
                    self._borrow_no_more(error)
            return self._borrows

    def _borrow_no_more(self, error: ExchangeError) -> None:
        logger.warning("no copies are had from other nodes: %s", error)
        self._borrows = None

    def output_path(self, name: str, route: Route) -> Path:
        """Return where a task writes an output, whose room is held."""
        path = self._store.entry(name) / "made" / (route.place.rpartition("/")[2] or "file")
        path.parent.mkdir(exist_ok=True)
        return path

    def deliver(self, name: str, route: Route) -> None:
        """Copy an output, if the task made it, to its place for all; a file stays here for tasks of this node."""
        path = self.output_path(name, route)
        if not os.path.lexists(path):
            return
        self._store.resize(name, size_of(path))
        with self._gate(route) as gate:
            stage_out(path, route.place, self._sources, gate, self._settings.retry)
        for copy in () if path.is_dir() else self.look([route]):  # whether a directory changed can't be told
            if copy.size_bytes == path.stat().st_size:
                path.parent.rename(path.parent.with_name(WHOLE))
                self._store.rename(name, copy.name)
                if copy.is_known and not route.is_shared and (borrower := self._borrower()) is not None:
                    borrower.have(copy.name)

    def computing(self) -> AbstractContextManager[object]:
        """Be one of the tasks that compute, for as long as a ``with`` lasts."""
        workers, pool = os.environ.get("PARSL_WORKER_COUNT"), os.environ.get("PARSL_WORKER_POOL_ID")
        if self._settings.workers_per_slot == 1 or workers is None:
            return nullcontext()
        return one_of(self.directory / f"slots-{pool}", max(int(workers) // self._settings.workers_per_slot, 1))

    @contextmanager
    def _gate(self, route: Route) -> Iterator[Gate]:
        """Be one of the node's fetchers, and give the gate that its chunks pass."""
        if route.is_shared:
            yield Gate(1)
            return
        settings = self._settings
        with one_of(self.directory / "fetchers", self._fetchers) as number:
            if number not in self._gates:
                share = Share(
                    settings.policy.max_delay_s,
                    policy=settings.policy,
                    number=number,
                    fetchers=self._fetchers,
                    nodes=settings.nodes,
                )
                # All nodes look into one directory of the PFS: the more there are, the less often.
                poll_s = min(POLL_S * settings.nodes * self._fetchers, MOST_POLL_S)
                self._gates[number] = WatchedGate(share, settings.phases, poll_s)
            with self._gates[number].watched() as gate:
                yield gate


def _let_appear(entry: Path, path: Path) -> Path:
    """Publish an entry's file, whole."""
    found = entry / WHOLE / path.name
    found.parent.mkdir(exist_ok=True)
    # Wherever it came from: a task that writes into its input would alter what others read, and other nodes get.
    path.chmod(stat.S_IMODE(path.stat().st_mode) & 0o444)
    return path.replace(found)


_nodes: dict[tuple[str, str], WorkerNode] = {}
_joining = threading.Lock()


def node_of(settings: NodeSettings) -> WorkerNode:
    """Return this process's node; it is joined once."""
    with _joining:
        key = (settings.run, os.path.expandvars(settings.directory))
        if key not in _nodes:
            _nodes[key] = WorkerNode(settings)
        return _nodes[key]


def leave(settings: NodeSettings) -> None:
    """Leave a node that this process has joined, if it has."""
    with _joining:
        for key in [key for key in _nodes if key[0] == settings.run]:
            _nodes.pop(key).close()


def _join(parent: Path, prefix: str, settings: NodeSettings) -> tuple[Path, int]:
    """Make a run's directory or join those who use it; what dead runs left goes."""
    for path in parent.glob(f"{prefix}*"):
        if path.name != prefix + settings.run:
            sweeping.remove_if_dead(str(path), wait=False)
    directory = parent / (prefix + settings.run)
    while True:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_own(directory)
        try:
            alive = lock(directory / sweeping.ALIVE, shared=True)
        except FileNotFoundError:
            continue  # it was removed in this moment, as none was left
        assert alive is not None
        try:
            # The lock counts only if its file still has the name: a sweeper may have removed it in between.
            if os.path.samestat(os.fstat(alive), os.stat(directory / sweeping.ALIVE)):
                break
        except FileNotFoundError:
            pass
        os.close(alive)
    sweeping.mark(alive, str(directory))
    if lock_once(directory / "swept"):
        _start_sweeper(directory)
        if settings.exchange is not None:
            start_lender(settings.exchange, shelves_of(directory))
    return directory, alive


def lock_once(path: Path) -> bool:
    """Make a file; return whether it is the first time."""
    try:
        # O_EXCL: of all processes of the node one makes it.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        return False
    return True


def _start_sweeper(directory: Path) -> None:
    words = [sys.executable, "-I", sweeping.__file__, str(directory)]
    nowhere = subprocess.DEVNULL
    process = subprocess.Popen(words, stdin=nowhere, stdout=nowhere, stderr=nowhere, start_new_session=True)
    process.returncode = 0  # it isn't waited for: it outlives this process
