"""What a user says about the burst buffer in Parsl's configuration."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bbflow.errors import ConfigError, nearest
from bbflow.phases import BoardSource, PhaseSource
from bbflow.staging.policies import Policy, parse_policy
from bbflow.units import parse_bytes

SCHEMES = ("file", "http", "https", "s3")
"""What is staged in if a URL's prefix isn't asked for."""
OPTIONS = ("oversize", "options", "retry", "events", "clock")
"""Settings of `bbflow.staging.Stager` that have no field of their own here."""


@dataclass(frozen=True)
class BurstBufferSettings:
    """The burst buffer of one executor, and which files go through it.

    A prefix is the beginning of a URL up to a slash: ``/pfs/survey``, ``s3://bucket/data``; the longest that matches
    counts. Files that match none go the way they go without bbflow.
    """

    directory: str | os.PathLike[str] | None = None
    """On the burst buffer, at the same path for this process and the workers; each run makes its own one in it. If
    None: /dev/shm, or nowhere where each node has a burst buffer of its own."""
    capacity: int | str = "4GiB"
    """Bytes that staged inputs and kept outputs may take together."""
    sources: Sequence[str] | None = None
    """Prefixes of the inputs that are staged in; if None, every regular file and every http(s) and s3 URL."""
    intermediate: Sequence[str] = ()
    """Prefixes of the outputs that stay on the burst buffer for the tasks that read them."""
    results: Sequence[str] = ()
    """Prefixes of the outputs that land on the burst buffer and are staged out behind the task's back."""
    outputs_share: float = 0.5
    """Share of the capacity that is for outputs, where `intermediate` or `results` is given."""
    expected: Mapping[str, int | str] = field(default_factory=dict)
    """Prefixes of outputs, to the room that a running task needs for each; the longest that matches counts."""
    node_directory: str | None = None
    """On the burst buffer that each node has for itself, if it has; variables such as $TMPDIR are the worker's."""
    node_capacity: int | str = "4GiB"
    """Bytes that files may take on each node."""
    peers: str | None = None
    """``host[:port]`` of this host at which the nodes reach it: what one node has, others copy from there. If None,
    each node copies from the source."""
    slots: int | None = None
    """Tasks that run at once; if None, the executor's workers."""
    policy: Policy | str = "no-action"
    """Delay policy, such as ``full-delay`` or ``partial-delay:limit=0.1``: what transfers do in others' I/O phases."""
    phases: PhaseSource | str | os.PathLike[str] | None = None
    """Directory where those phases are announced, or what else sees them."""
    fetchers: int = 8
    """Transfers at once."""
    lookahead: int = 1
    """Waves that are staged ahead of the one that computes."""
    options: dict[str, Any] = field(default_factory=dict)
    """Further settings of `bbflow.staging.Stager`, by name."""

    def __post_init__(self) -> None:
        if not 0 < self.outputs_share < 1:
            raise ConfigError(f"outputs_share is {self.outputs_share}: it must lie between 0 and 1")
        if self.directory is not None and "://" in os.fspath(self.directory):
            raise ConfigError(
                f"directory is {self.directory}: tasks need a path. Mount the files with 'bbflow mount CONTACT DIR' on "
                "each node, and name that directory, or one in it"
            )
        if self.peers is not None and self.node_directory is None:
            raise ConfigError(
                f"peers is {self.peers!r}: it is for nodes with a burst buffer of their own (node_directory)"
            )
        for name in ("sources", "intermediate", "results"):
            if isinstance(getattr(self, name), str):
                raise ConfigError(f"{name} is a text: write a list of prefixes, [{getattr(self, name)!r}]")
        for prefix in {*map(absolute, self.intermediate)} & {*map(absolute, self.results)}:
            raise ConfigError(f"{prefix} is in 'intermediate' and in 'results': leave one out")
        for size in (self.capacity, self.node_capacity, *self.expected.values()):
            parse_bytes(size)
        for name in self.options:
            if name not in OPTIONS:
                raise ConfigError(f"options has {name!r}, which no stager takes; {nearest(name, OPTIONS)}")
        policy = self.delay_policy
        if self.phases is None and policy.needs_phases:
            raise ConfigError(f"policy {self.policy}: it needs 'phases', a directory where I/O phases are announced")
        if self.slots is not None and self.slots < 1:
            raise ConfigError(f"slots is {self.slots}: a burst buffer needs 1 or more, or None for the workers")

    @property
    def delay_policy(self) -> Policy:
        """What transfers do while others are in an I/O phase."""
        return parse_policy(self.policy) if isinstance(self.policy, str) else self.policy

    @property
    def phase_source(self) -> PhaseSource | None:
        """Where those phases are seen; nowhere if None."""
        return BoardSource(Path(self.phases)) if isinstance(self.phases, str | os.PathLike) else self.phases

    @property
    def shared_directory(self) -> Path | None:
        """On the burst buffer that all workers see; None if there is none."""
        if self.directory is None:
            return None if self.node_directory is not None else Path("/dev/shm")
        return Path(self.directory)

    def expected_bytes(self, url: str) -> int:
        """Return the room that a running task needs for an output; 0 if nothing was said."""
        prefix = _longest(url, self.expected)
        return parse_bytes(self.expected[prefix]) if prefix is not None else 0

    @property
    def outputs_bytes(self) -> int:
        """Bytes for outputs; 0 if no output lands on the burst buffer."""
        return int(parse_bytes(self.capacity) * self.outputs_share) if self.intermediate or self.results else 0

    @property
    def inputs_bytes(self) -> int:
        """Bytes for staged inputs."""
        return parse_bytes(self.capacity) - self.outputs_bytes

    def stages_in(self, url: str) -> bool:
        """Whether an input is to be staged, if it is there."""
        if self.sources is not None:
            return _longest(url, self.sources) is not None
        return urlsplit(url).scheme in ("", *SCHEMES)

    def keeps(self, url: str) -> bool:
        """Whether an output stays on the burst buffer."""
        return self._output_prefix(url) in self.intermediate

    def stages_out(self, url: str) -> bool:
        """Whether an output lands on the burst buffer and is staged out."""
        return self._output_prefix(url) in self.results

    def _output_prefix(self, url: str) -> str | None:
        return _longest(url, [*self.intermediate, *self.results])


def absolute(url: str) -> str:
    """Return a URL in the one form by which a file is known: local ones as an absolute path, without a scheme."""
    parts = urlsplit(url)
    if parts.scheme not in ("", "file"):
        return url
    # Not parts.path, as Parsl has it: ``#`` and ``?`` belong to the names of files.
    return os.path.abspath(url[len("file://") + len(parts.netloc) :] if url.startswith("file://") else url)


def local_path(url: str) -> Path | None:
    """Return the path of a URL that this host's file systems have; None for others."""
    known = absolute(url)
    return Path(known) if known.startswith("/") else None


def _longest(url: str, prefixes: Iterable[str]) -> str | None:
    """Return the prefix of a URL that says most of it; None if there is none."""
    known = absolute(url)
    matching = [prefix for prefix in prefixes if (known + "/").startswith(absolute(prefix).rstrip("/") + "/")]
    return max(matching, key=lambda prefix: len(absolute(prefix)), default=None)
