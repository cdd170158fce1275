"""The public interface in Python, for notebooks and for the command line."""

import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from bbflow.configuring.config import parse_config
from bbflow.configuring.settings import Config
from bbflow.errors import ConfigError, StreamError, describe_end
from bbflow.host.closable import Closable
from bbflow.landing.client import status_of
from bbflow.landing.embedded import DEFAULT_DIRECTORY, EmbeddedNodes
from bbflow.landing.replies import StatusReply
from bbflow.net.certificate import certificate_of
from bbflow.net.contact import NodeAddress, read_contact
from bbflow.transit.clusters.cluster import Cluster
from bbflow.transit.clusters.local_cluster import local_cluster
from bbflow.transit.clusters.security import jobqueue_options as jobqueue_options
from bbflow.transit.output.claiming import claim_output, locked_output
from bbflow.transit.output.copying import check_output
from bbflow.transit.pipeline import Outcome, Pipeline
from bbflow.units import parse_capacity, parse_path

if TYPE_CHECKING:  # 'bbflow fold' comes this way, and folds before it needs xarray
    import xarray as xr
    from distributed import Client


def start_nodes(
    count: int = 1, capacity: str | int = "512MiB", directory: str | Path = DEFAULT_DIRECTORY
) -> "BurstBuffer":
    """Start BB nodes on this host, which end with the `BurstBuffer` that is returned.

    Parameters
    ----------
    count
        How many.
    capacity
        Size of each, such as ``"512MiB"``.
    directory
        A file system in memory or on a fast disk.

    Raises
    ------
    CapacityError
        If the directory has no room for them.
    """
    embedded = EmbeddedNodes(count, parse_capacity(capacity), parse_path(directory))
    return BurstBuffer(embedded.contact, embedded)


def connect(contact: str | Path) -> "BurstBuffer":
    """Use BB nodes that are there.

    Parameters
    ----------
    contact
        The contact file that they wrote.

    Raises
    ------
    NodeError
        If there is no such file.
    """
    return BurstBuffer(parse_path(contact))


def open_results(path: Path | str) -> "xr.Dataset":
    """Open ``results.zarr``; nothing but coordinates is loaded.

    Parameters
    ----------
    path
        The store.
    """
    from bbflow.transit.output.decoding import open_results

    return open_results(Path(path))


class BurstBuffer(Closable):
    """The BB nodes of a contact file.

    Parameters
    ----------
    contact
        The contact file.
    embedded
        Nodes that end with this object.
    """

    def __init__(self, contact: Path, embedded: EmbeddedNodes | None = None) -> None:
        self._embedded = embedded
        self.contact = contact
        """The contact file: the engine's parameter Contact, or its BBFLOW_CONTACT."""
        self.nodes: tuple[NodeAddress, ...] = read_contact(contact)
        """Where the nodes are."""

    def status(self) -> list[StatusReply]:
        """Ask each node for its capacity, its free space, and its streams."""
        return [status_of(node) for node in self.nodes]

    def analyse(
        self,
        config: Config | Mapping[str, Any],
        scheduler: str | Cluster | None = None,
        *,
        client: "Client | None" = None,
        output_held: bool = False,
        take_over: bool = False,
        folds: bool = True,
        lost: Sequence[str] = (),
    ) -> "Analysis":
        """Register operators on a stream and fold it in the background until it ends.

        Parameters
        ----------
        config
            As `bbflow.configuring.config.load_config` gives it, or a dict with the keys of the YAML file.
        scheduler
            A Dask scheduler's address or scheduler file, or a cluster that is used already; None folds in threads of
            this process, or in those that ``workers`` names.
        client
            In place of it, a Dask client of your own, such as dask-jobqueue's or a ``LocalCluster``'s: its workers must
            run on the nodes' hosts. It stays open.
        output_held
            Whether the caller keeps other analyses from writing into the output.
        take_over
            Whether the stream may be another analysis' until now, one with another output.
        folds
            Whether further steps are folded; otherwise what is folded already is published.
        lost
            Names of nodes that are gone for good: the others' steps are folded.

        Raises
        ------
        ConfigError
            If the configuration is wrong, or the output holds something else.
        """
        checked = config if isinstance(config, Config) else parse_config(dict(config))
        if scheduler is not None and client is not None:
            raise ConfigError("both a scheduler and a client are given: give one of them")
        how: dict[str, Any] = {"takes_over": take_over, "folds": folds, "lost": lost}
        return Analysis(self.contact, checked, scheduler, client=client, output_held=output_held, **how)

    def close(self) -> None:
        """End the nodes, if they were started with this object."""
        if self._embedded is not None:
            self._embedded.close()


class Analysis:
    """A stream that is being folded in the background.

    Parameters
    ----------
    contact
        The contact file of the nodes that its steps land on.
    config
        What is computed.
    scheduler, client, output_held
        As for `BurstBuffer.analyse`.
    **how
        As for `bbflow.transit.pipeline.Pipeline`.
    """

    def __init__(
        self,
        contact: Path,
        config: Config,
        scheduler: str | Cluster | None = None,
        *,
        client: "Client | None" = None,
        output_held: bool = False,
        **how: Any,
    ) -> None:
        self._nodes = [node for node in read_contact(contact) if node.name not in how.get("lost", ())]
        self._stream, self._output = config.stream, config.output
        self._resources = ExitStack()
        claim_output(config)
        try:
            if not output_held:
                self._resources.enter_context(locked_output(config.output))
                check_output(config)
            if client is not None:
                from bbflow.transit.clusters.dask_cluster import users_cluster  # late: Dask takes long to import

                scheduler = self._resources.enter_context(users_cluster(client))
            elif scheduler is None:
                scheduler = self._resources.enter_context(local_cluster(config.workers))
            elif isinstance(scheduler, str):
                from bbflow.transit.clusters.dask_cluster import connected_cluster  # late: Dask takes long to import

                scheduler = self._resources.enter_context(connected_cluster(scheduler, certificate_of(contact)))
            self._pipeline = Pipeline(contact, config, scheduler, **how)
        except BaseException:
            self._resources.close()
            raise
        self._outcome: Outcome | None = None
        self._error: BaseException | None = None
        # A daemon: a program that ends without `stop` isn't held up, and the next analysis continues from the
        # checkpoints.
        self._thread = threading.Thread(target=self._run, name="bbflow-analysis", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._outcome = self._pipeline.run()
        except BaseException as error:  # it is raised again in `wait`, in the caller's thread
            self._error = error

    def watch(
        self, interval_s: float = 1.0, *, program: "subprocess.Popen[Any] | None" = None
    ) -> Iterator[list[StatusReply]]:
        """Yield the nodes' status again and again until the stream has ended.

        Parameters
        ----------
        interval_s
            Seconds between two.
        program
            The simulation, if it is a process of this one.

        Raises
        ------
        StreamError
            If it has ended without opening the stream, which would be waited for forever.
        """
        while self._thread.is_alive():
            code = None if program is None else program.poll()
            statuses = [status_of(node) for node in self._nodes]
            yield statuses
            if code is not None and all(self._awaits(status) for status in statuses):
                raise StreamError(
                    f"the program {describe_end(code)} and never opened stream {self._stream!r}: look at what it says, "
                    "whether its IO has this name, and its engine is bbflow's"
                )
            self._thread.join(interval_s)

    def _awaits(self, status: StatusReply) -> bool:
        # The node knows of it since the analysis has begun: one that it doesn't know has ended, and is forgotten.
        return self._stream in status.streams and status.streams[self._stream].status == "expected"

    def result(self, timeout_s: float = 60.0) -> "xr.Dataset":
        """Return the statistics as they are now, those of the open month and of the run so far included.

        When the stream has ended it is what was published.

        Parameters
        ----------
        timeout_s
            How long to wait for the first fold.

        Raises
        ------
        StreamError
            If nothing was folded in that time.
        """
        deadline_s = time.monotonic() + timeout_s
        try:
            return self._pipeline.live(timeout_s if self._thread.is_alive() else 0.0)
        except StreamError:
            self._thread.join(max(deadline_s - time.monotonic(), 0.0))  # the stream may just have ended
            if self._thread.is_alive():
                raise
        self.wait()
        with open_results(self._output / "results.zarr") as published:
            results: xr.Dataset = published.load()
        return results

    def wait(self, timeout_s: float | None = None) -> Outcome | None:
        """Wait until the stream has ended and everything is published and drained.

        Returns
        -------
        Outcome or None
            None if it was stopped, or the time is up.

        Raises
        ------
        BbflowError
            What ended the analysis.
        """
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        while self._thread.is_alive() and (deadline_s is None or time.monotonic() < deadline_s):
            self._thread.join(0.2)  # in short turns, so that Ctrl-C is seen
        if not self._thread.is_alive():
            self._resources.close()  # who is told of the end can begin another analysis at once
        if self._error is not None:
            raise self._error
        return self._outcome

    def stop(self) -> None:
        """End the analysis; what was folded stays on the nodes, and another analysis continues."""
        self._pipeline.stop()
        self._thread.join()
        self._resources.close()

    def __enter__(self) -> "Analysis":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
