"""Numbers for those who run a site: what nodes, masters, streams and stagers are asked, as OpenMetrics.

Everything here is asked for from outside, by requests that servers answer anyway, and from the events that stagers and
analyses write; so nothing of it costs a step anything. The only module that imports prometheus_client.
"""

import hmac
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bbflow.ensemble.roster import Standing
from bbflow.ensemble.status import EnsembleStatus, read_status
from bbflow.errors import BbflowError, ConfigError, MissingToolError, NodeError
from bbflow.events import EVENTS_FILE
from bbflow.files.client.client import FilesClient
from bbflow.files.replies import OverviewReply
from bbflow.landing.client import status_of
from bbflow.landing.replies import StatusReply
from bbflow.net.contact import NodeAddress, read_contact, read_masters

if TYPE_CHECKING:
    from prometheus_client.core import Metric

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_PATH = "/metrics"
_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Sample:
    """One number."""

    name: str
    """With its unit, as the field's exporters write it; a counter ends with ``_total``."""
    value: float
    """In the unit of its name."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Whose it is."""


HELP = {
    "bbflow_node_up": "Whether the BB node answers.",
    "bbflow_node_capacity_bytes": "Room of the node's pool.",
    "bbflow_node_free_bytes": "Room that is free in it.",
    "bbflow_stream_info": "A stream on a node, and how it is: expected, open, closed or aborted.",
    "bbflow_stream_written_steps_total": "Steps that a rank has begun.",
    "bbflow_stream_landed_steps_total": "Steps that are whole on the node.",
    "bbflow_stream_landed_bytes_total": "Their bytes on the node.",
    "bbflow_stream_discarded_steps_total": "Steps that were dropped whole for lack of room.",
    "bbflow_stream_held_steps": "Steps that the node keeps.",
    "bbflow_stream_waiting_requests": "Requests of ranks for room without an answer yet.",
    "bbflow_stream_waited_seconds_total": "The longest that one rank has waited for room, in sum.",
    "bbflow_stream_readers": "Programs that read the stream from the node.",
    "bbflow_stream_done_steps_total": "Steps that a consumer, such as fold or drain, is done with.",
    "bbflow_master_up": "Whether the master of a subtree answers.",
    "bbflow_ionode_up": "Whether the IOnode is there, as its master says.",
    "bbflow_ionode_lost": "Whether its bytes count as lost.",
    "bbflow_ionode_capacity_bytes": "Room of the IOnode.",
    "bbflow_ionode_free_bytes": "Room that is free; below zero while it may hold less than it does.",
    "bbflow_files": "Files by state.",
    "bbflow_files_bytes": "Bytes of files by state.",
    "bbflow_files_open": "Files that are open.",
    "bbflow_files_sessions": "Clients of the master.",
    "bbflow_files_oldest_dirty_seconds": "How long the oldest has waited to be written back.",
    "bbflow_files_written_bytes_total": "Bytes that were written back.",
    "bbflow_files_failed": "Files that could not be written back.",
    "bbflow_stager_transfers_total": "Files that were copied to the burst buffer.",
    "bbflow_stager_transferred_bytes_total": "Their bytes.",
    "bbflow_stager_transfer_seconds_total": "How long they took, added up.",
    "bbflow_stager_tasks_total": "Tasks that have ended.",
    "bbflow_stager_task_wait_seconds_total": "From a task's submission until its inputs were there, added up.",
    "bbflow_stager_evictions_total": "Files that went for others.",
    "bbflow_stager_refused_tasks_total": "Tasks that can't run: no room, or no source.",
    "bbflow_stager_held_seconds_total": "How long transfers gave way to other applications, by how.",
    "bbflow_ensemble_members": "Members of an ensemble by how they are.",
    "bbflow_ensemble_times_total": "Times of members that are folded.",
    "bbflow_ensemble_complete_times": "Times of a window that all members have passed.",
    "bbflow_ensemble_open_times": "Times of which a state is kept.",
    "bbflow_ensemble_state_bytes": "What these take in memory.",
    "bbflow_analysis_batches_total": "Batches that an analysis has folded, drained, published or copied for safety.",
    "bbflow_analysis_seconds_total": "How long they took, added up.",
    "bbflow_analysis_bytes_total": "Their bytes, as far as they are told.",
}
"""What each number is."""


def node_samples(node: NodeAddress, status: StatusReply | None) -> Iterator[Sample]:
    """Write down what a node says; None if it doesn't answer."""
    own = {"node": node.name}
    yield Sample("bbflow_node_up", float(status is not None), own)
    if status is None:
        return
    yield Sample("bbflow_node_capacity_bytes", status.capacity, own)
    yield Sample("bbflow_node_free_bytes", status.free, own)
    for name, stream in status.streams.items():
        labels = own | {"stream": name}
        yield Sample("bbflow_stream_info", 1.0, labels | {"status": stream.status})
        yield Sample("bbflow_stream_written_steps_total", stream.written, labels)
        yield Sample("bbflow_stream_landed_steps_total", stream.landed, labels)
        yield Sample("bbflow_stream_landed_bytes_total", stream.landed_bytes, labels)
        yield Sample("bbflow_stream_discarded_steps_total", stream.discarded, labels)
        yield Sample("bbflow_stream_held_steps", stream.held, labels)
        yield Sample("bbflow_stream_waiting_requests", stream.waiting, labels)
        yield Sample("bbflow_stream_waited_seconds_total", stream.waited_s, labels)
        yield Sample("bbflow_stream_readers", stream.readers, labels)
        for consumer, step in stream.consumers.items():
            yield Sample("bbflow_stream_done_steps_total", step + 1, labels | {"consumer": consumer})


def master_samples(subtree: str, overview: OverviewReply | None) -> Iterator[Sample]:
    """Write down what a master says of itself and its IOnodes; None if it doesn't answer."""
    own = {"subtree": subtree}
    yield Sample("bbflow_master_up", float(overview is not None), own)
    if overview is None:
        return
    for node in overview.nodes:
        labels = own | {"ionode": node.name}
        yield Sample("bbflow_ionode_up", float(node.up), labels)
        yield Sample("bbflow_ionode_lost", float(node.lost), labels)
        yield Sample("bbflow_ionode_capacity_bytes", node.capacity, labels)
        yield Sample("bbflow_ionode_free_bytes", node.free_bytes, labels)
    for state, (count, size_bytes) in overview.files.items():
        yield Sample("bbflow_files", count, own | {"state": state})
        yield Sample("bbflow_files_bytes", size_bytes, own | {"state": state})
    yield Sample("bbflow_files_open", overview.open, own)
    yield Sample("bbflow_files_sessions", overview.sessions, own)
    yield Sample("bbflow_files_oldest_dirty_seconds", overview.oldest_dirty_s, own)
    yield Sample("bbflow_files_written_bytes_total", overview.written_bytes, own)
    yield Sample("bbflow_files_failed", len(overview.failed), own)


def ensemble_samples(status: EnsembleStatus) -> Iterator[Sample]:
    """Write down what an ensemble's analysis has said of itself last."""
    own = {"ensemble": status.name}
    counted = Counter(member.standing for member in status.members)
    for standing in Standing:
        yield Sample("bbflow_ensemble_members", counted[standing.value], own | {"standing": standing.value})
    yield Sample("bbflow_ensemble_times_total", sum(member.times for member in status.members), own)
    for window, number in status.shown.items():
        yield Sample("bbflow_ensemble_complete_times", number, own | {"window": window})
    yield Sample("bbflow_ensemble_open_times", status.open_moments, own)
    yield Sample("bbflow_ensemble_state_bytes", status.state_bytes, own)


class NotedEvents:
    """Adds up what a stager, or the analysis of a run, notes in a directory; only what is new is read.

    Parameters
    ----------
    directory
        Of its events; it may come later.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        """Which one."""
        self._path, self._own = directory / EVENTS_FILE, {"directory": str(directory)}
        self._lock = threading.Lock()
        self._read_bytes = 0
        self._sums: dict[tuple[str, str], float] = {}

    def samples(self) -> Iterator[Sample]:
        """Write down the sums up to now."""
        with self._lock:  # several may ask at once
            self._take()
            sums = dict(self._sums)
        for (name, kind), value in sums.items():
            yield Sample(name, value, self._own | ({"kind": kind} if kind else {}))
        with suppress(ConfigError):  # most directories have no ensemble
            yield from ensemble_samples(read_status(self.directory))

    def _take(self) -> None:
        with suppress(FileNotFoundError), self._path.open("rb") as file:
            if file.seek(0, 2) < self._read_bytes:  # another one has taken its place
                self._read_bytes, self._sums = 0, {}
            file.seek(self._read_bytes)
            for line in file:
                if not line.endswith(b"\n"):
                    break  # it is being written
                self._read_bytes += len(line)
                with suppress(ValueError, KeyError, TypeError):  # a full file system has torn it
                    self._count(json.loads(line))

    def _count(self, event: Mapping[str, Any]) -> None:
        match event["event"]:
            case "transfer":
                self._add("stager_transfers_total", 1)
                self._add("stager_transferred_bytes_total", event["bytes"])
                self._add("stager_transfer_seconds_total", event["ended_s"] - event["started_s"])
            case "task":
                self._add("stager_tasks_total", 1)
                if event.get("ready_s") is not None and event.get("submitted_s") is not None:
                    self._add("stager_task_wait_seconds_total", event["ready_s"] - event["submitted_s"])
            case "evicted":
                self._add("stager_evictions_total", 1)
            case "refused":
                self._add("stager_refused_tasks_total", 1)
            case "hold":
                self._add("stager_held_seconds_total", event["ended_s"] - event["started_s"], str(event["kind"]))
            case "fold" | "drain" | "publish" | "safe":
                self._add("analysis_batches_total", 1, event["event"])
                self._add("analysis_seconds_total", event["ended_s"] - event["started_s"], event["event"])
                self._add("analysis_bytes_total", event.get("bytes", 0), event["event"])

    def _add(self, name: str, value: float, kind: str = "") -> None:
        key = (f"bbflow_{name}", kind)
        self._sums[key] = self._sums.get(key, 0.0) + value


def ask(contact: Path | None, noted: Sequence[NotedEvents]) -> Iterator[Sample]:
    """Ask all that a contact file names, and look what stagers have noted.

    Raises
    ------
    ConfigError
        If it isn't a contact file.
    """
    if contact is not None:
        yield from _nodes(contact)
        yield from _masters(contact)
    for each in noted:
        yield from each.samples()


def _nodes(contact: Path) -> Iterator[Sample]:
    with suppress(NodeError):  # a contact file may have masters only
        for node in read_contact(contact):
            try:
                yield from node_samples(node, status_of(node))
            except (BbflowError, OSError):
                yield from node_samples(node, None)


def _masters(contact: Path) -> Iterator[Sample]:
    try:
        subtrees = [master.subtree for master in read_masters(contact)]
    except NodeError:
        return
    found: dict[str, OverviewReply] = {}
    with suppress(BbflowError, OSError), FilesClient(contact) as client:
        found = {overview.subtree: overview for overview in client.status()}
    for subtree in subtrees:
        yield from master_samples(subtree, found.get(subtree))


def exposition(samples: Iterable[Sample]) -> bytes:
    """Write samples as OpenMetrics text.

    Raises
    ------
    MissingToolError
        If prometheus_client isn't installed.
    """
    try:
        from prometheus_client import CollectorRegistry
        from prometheus_client.openmetrics.exposition import generate_latest
    except ImportError:
        raise MissingToolError("metrics need prometheus-client: pip install 'bbflow[metrics]'") from None
    found = list(samples)

    class Collected:
        def collect(self) -> "Iterator[Metric]":
            return families(found)

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Collected())
    return bytes(generate_latest(registry))  # type: ignore[no-untyped-call]


def families(samples: Iterable[Sample]) -> "Iterator[Metric]":
    """Put samples of one name together."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    by_name: dict[str, list[Sample]] = {}
    for sample in samples:
        by_name.setdefault(sample.name, []).append(sample)
    for name, found in by_name.items():
        labels = list(found[0].labels)
        kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
        family = kind(name, HELP[name], labels=labels)
        for sample in found:
            family.add_metric([sample.labels[label] for label in labels], sample.value)
        yield family


def secret_of(key: str) -> str:
    """Return the token by which numbers may be asked for: it follows from a contact's key, and doesn't give it away."""
    return hmac.new(bytes.fromhex(key), b"metrics", "sha256").hexdigest()


class MetricsServer(ThreadingHTTPServer):
    """Answers ``GET /metrics`` of those who have a token.

    Parameters
    ----------
    address
        Host and port; port 0 takes a free one.
    token
        What is asked for: ``Authorization: Bearer TOKEN``.
    draw
        Gives the text.
    """

    daemon_threads = True

    def __init__(self, address: tuple[str, int], token: str, draw: Callable[[], bytes]) -> None:
        self.token, self.draw = token, draw
        super().__init__(address, _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: MetricsServer
    timeout = _TIMEOUT_S

    def do_GET(self) -> None:
        """Answer a scrape."""
        given = self.headers.get("Authorization", "")
        if not hmac.compare_digest(given.encode(), f"Bearer {self.server.token}".encode()):
            self.send_error(HTTPStatus.UNAUTHORIZED, "the token of the contact file is wanted")
        elif self.path.partition("?")[0] != _PATH:
            self.send_error(HTTPStatus.NOT_FOUND, f"numbers are at {_PATH}")
        else:
            self._answer()

    def _answer(self) -> None:
        try:
            text = self.server.draw()
        except BbflowError as error:
            self.send_error(HTTPStatus.SERVICE_UNAVAILABLE, str(error).partition("\n")[0])
            return
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - the library's name
        """Log no requests."""
