"""What runs on a host for a job's stream: its BB node, its Dask worker and, on the first of the hosts, the analysis."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, chdir, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from bbflow.configuring.config import load_config
from bbflow.configuring.settings import Config
from bbflow.errors import BbflowError, ConfigError, NodeError, describe, describe_end
from bbflow.host.waiting import until
from bbflow.landing.embedded import EmbeddedNodes
from bbflow.net.contact import read_contact
from bbflow_slurm.streams import START_S, JobStream, at_analysis

VARIABLES = ("ADIOS2_PLUGIN_PATH", "LD_PRELOAD", "BBFLOW_CONTACT", "BBFLOW_OPENS", "BBFLOW_SELECT")
"""What `bbflow run` lets a simulation find the engine and the nodes by."""
_END_S = 10.0
_POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class Hosts:
    """The hosts of a stream, and which of them this is."""

    here: str
    """As Slurm names it, or the site."""
    names: tuple[str, ...]
    """All of them; the first one has the analysis."""

    def __post_init__(self) -> None:
        if self.here not in self.names:
            raise ConfigError(f"{self.here} is none of the stream's hosts: {', '.join(self.names)}")

    @property
    def is_first(self) -> bool:
        """Whether the analysis runs here."""
        return self.here == self.names[0]


def serve(stream: JobStream, hosts: Hosts, *, restarts: int, end_s: float) -> None:
    """Run a host's part, until the job and its analysis have ended.

    Parameters
    ----------
    stream
        The job's.
    hosts
        All of its hosts.
    restarts
        How often the job has begun before: results of its earlier lives are replaced.
    end_s
        How long the analysis is given after the job.
    """
    with stream.held(hosts.here), stream.alive() if hosts.is_first else nullcontext():
        if stream.is_over:
            return
        try:
            analysis = stream.analysis
            with at_analysis(analysis):
                config = load_config(analysis)
            with chdir(analysis.parent), _node(stream, config), _dask(stream, hosts, config):
                if hosts.is_first:
                    _analyse(stream, hosts, config, restarts=restarts, end_s=end_s)
                else:
                    stream.await_done()
        except (BbflowError, OSError) as error:
            reason = str(error) if isinstance(error, BbflowError) else describe(error)
            print(f"bbflow-slurm: {reason}", flush=True)
            with suppress(FileNotFoundError):
                stream.fail(f"{hosts.here}: {reason}")


@contextmanager
def _node(stream: JobStream, config: Config) -> Iterator[None]:
    host = socket.gethostname()
    nodes = EmbeddedNodes(
        capacity=config.nodes.capacity,
        directory=config.nodes.directory,
        contact=stream.contact,
        prefix=f"{host}-bb",
        options=["--listen", host],
    )
    with nodes:
        yield


@contextmanager
def _dask(stream: JobStream, hosts: Hosts, config: Config) -> Iterator[None]:
    """Run a worker, and on the first host the scheduler, which ends the workers."""
    shared = ["--contact", str(stream.contact), "--scheduler-file", str(stream.scheduler)]
    kinds = [["scheduler"]] if hosts.is_first else []
    kinds.append(["worker", "--threads", str(config.workers.threads)])
    with ExitStack() as stack:
        for kind, *words in kinds:
            process = subprocess.Popen([sys.executable, "-m", "bbflow", "dask", kind, *shared, *words])
            stack.callback(_end, process)
            if kind == "scheduler" and not until(stream.scheduler.exists, START_S, _POLL_S):
                raise NodeError("the Dask scheduler didn't start")
        yield


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _analyse(stream: JobStream, hosts: Hosts, config: Config, *, restarts: int, end_s: float) -> None:
    """Run the analysis beside what lasts as long as the job."""
    if not until(lambda: stream.is_over or stream.is_settled or _are_up(stream, hosts), START_S, _POLL_S):
        up = {node.host for node in read_contact(stream.contact)}
        raise NodeError(f"of the BB nodes on {len(hosts.names)} hosts only those on {', '.join(sorted(up))} are up")
    output = config.output.absolute()
    log = output.with_name(f"{output.name}.{stream.job}.log")
    log.parent.mkdir(parents=True, exist_ok=True)
    words = [str(stream.analysis), "--contact", str(stream.contact), "--scheduler", str(stream.scheduler)]
    words += ["--overwrite"] if restarts else []
    lasting = [sys.executable, "-m", "bbflow_slurm.cli", "lasting", str(stream.folder.parent), stream.job]
    if stream.is_over or stream.is_settled:  # another host has failed
        return
    with log.open("w") as said:
        command = [sys.executable, "-m", "bbflow", "run", *words, "--", *lasting]
        run = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
        try:
            _watch(stream, run, log, end_s)
        finally:
            _end(run)


def _are_up(stream: JobStream, hosts: Hosts) -> bool:
    return stream.contact.exists() and len(read_contact(stream.contact)) == len(hosts.names)


def _watch(stream: JobStream, run: "subprocess.Popen[bytes]", log: Path, end_s: float) -> None:
    over_s = None
    while run.poll() is None:
        time.sleep(_POLL_S)
        if over_s is None and stream.is_over:
            over_s = time.monotonic()
        if over_s is not None and time.monotonic() - over_s > end_s:
            raise NodeError(f"the analysis didn't end within {end_s:.0f} s after its job")
    if not stream.is_settled and not stream.is_over:
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
        raise NodeError(lines[-1].removeprefix("bbflow: ") if lines else f"it {describe_end(run.returncode)}")


def last(stream: JobStream) -> None:
    """Be the analysis' simulation: let the job begin, and last as long as it does."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        # the analysis wants its simulation to end
        subprocess.run(["scancel", "--full", "--signal=TERM", stream.job], check=False)

    signal.signal(signal.SIGTERM, stop)
    stream.allow({name: os.environ[name] for name in VARIABLES if name in os.environ})
    while not stream.is_over:
        time.sleep(_POLL_S)


def begin(stream: JobStream, hosts: Hosts, *, restarts: int, end_s: float) -> None:
    """Start this host's part, and wait until it is known whether the job may begin."""
    words = [sys.executable, "-m", "bbflow_slurm.cli", "host", str(stream.folder.parent), stream.job]
    words += ["--host", hosts.here, "--hosts", " ".join(hosts.names)]
    words += ["--restarts", str(restarts), "--end-s", str(end_s)]
    with (stream.folder / f"{hosts.here}.log").open("ab") as log:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd="/"
        )
    until(lambda: stream.is_settled or stream.is_over or process.poll() is not None, START_S + _END_S, _POLL_S)
    if not stream.is_settled and not stream.is_over:
        stream.fail(f"{hosts.here}: the analysis didn't start: see {stream.folder / f'{hosts.here}.log'}")
