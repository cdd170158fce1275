"""Running an ensemble: the analysis of all members in one process, and members' programs."""

import os
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path

from bbflow.ensemble.ensemble_settings import EnsembleAnalysis
from bbflow.ensemble.gathering import EnsembleFold
from bbflow.ensemble.places import CONTACT, DOWN, HOST, LOCK, LOG, RESULTS, STATUS, UP, claim_ensemble
from bbflow.ensemble.roster import Verdict
from bbflow.ensemble.status import read_status, write_status
from bbflow.errors import BbflowError, ConfigError, NodeError, StreamError, describe_end, one_line
from bbflow.host.atomic import write_whole
from bbflow.host.leftovers import VARIABLE, run_name
from bbflow.host.locks import lock, locked_alone
from bbflow.host.log import tell
from bbflow.landing.client import status_of, tell_node
from bbflow.landing.embedded import EmbeddedNodes
from bbflow.landing.requests import DropRequest
from bbflow.net.contact import read_contact
from bbflow.run.course import PASSING, TRIES
from bbflow.transit.chain.saved import read_state
from bbflow.transit.clusters.cluster import Cluster
from bbflow.transit.clusters.local_cluster import local_cluster
from bbflow.transit.output.claiming import STATE_FILE, claim_output, locked_output
from bbflow.transit.pipeline import Pipeline
from bbflow.zarr_store.growing import shown_attributes

TURN_S = 0.1
"""How long to wait where a turn had nothing to do."""
LOOK_S = 1.0
"""How often nodes are asked for a stream that isn't opened."""
ENDING_S = 30.0
"""How long an analysis may take to end whose keeper was killed."""
NODE_BACK_S = 60.0
"""How long a member's analysis is begun again while a node doesn't answer."""
STATUS_S = 0.5


class MemberRun:
    """The analysis of one attempt of a member, in threads of this process.

    Parameters
    ----------
    analysis
        The ensemble's configuration.
    contact
        Where the nodes are.
    cluster
        Where tasks run.
    name
        The member.
    attempt
        Which attempt.
    """

    def __init__(self, analysis: EnsembleAnalysis, contact: Path, cluster: Cluster, name: str, attempt: int) -> None:
        self._contact, self._cluster, self._attempt = contact, cluster, attempt
        output = analysis.output_of(name)
        output.mkdir(parents=True, exist_ok=True)
        self._stream = analysis.stream_of(name, attempt)
        before = read_state(output).stream if (output / STATE_FILE).exists() else None
        self._was_saved = before == self._stream
        self._config = analysis.config_of(name, attempt, continues=before not in (None, self._stream))
        self._pipeline: Pipeline | None = None
        self._stopped = threading.Event()
        self._looked_s = 0.0
        self._changing = threading.Lock()
        self._verdict: Verdict | None = None
        self._thread = threading.Thread(target=self._run, name=f"member-{name}", daemon=True)
        self._thread.start()

    def done(self, *, ended: bool) -> Verdict | None:
        """Return what it came to; None while it runs.

        Parameters
        ----------
        ended
            Whether the member's program has ended: a stream that it hasn't opened will never be.
        """
        if self._thread.is_alive() and ended and time.monotonic() - self._looked_s > LOOK_S:
            self._looked_s = time.monotonic()
            with suppress(BbflowError):
                # Nodes that don't know it any more have seen its end.
                if (stands := self._stands()) and all(own == "expected" for own in stands):
                    self._give_up(
                        "its program ended, and no node has a stream of it: see what it said, and start it again"
                    )
        return None if self._thread.is_alive() else self._verdict

    def stop(self) -> None:
        """End it; what it has folded stays on the nodes."""
        self._stopped.set()
        with self._changing:
            if self._pipeline is not None:
                self._pipeline.stop()
        self._thread.join()

    def _stands(self) -> list[str]:
        """Ask the nodes how the stream stands on each that knows it."""
        found = (status_of(node).streams.get(self._stream) for node in read_contact(self._contact))
        return [own.status for own in found if own is not None]

    def _give_up(self, why: str) -> None:
        self.stop()
        if self._verdict is not None:
            return
        self._verdict = Verdict(attempt=self._attempt, complete=False, why=why)
        for node in read_contact(self._contact):
            with suppress(StreamError, NodeError):
                tell_node(node, DropRequest(stream=self._stream))

    def _run(self) -> None:
        deadline_s = time.monotonic() + NODE_BACK_S
        while not self._stopped.is_set():
            try:
                self._verdict = self._analyse()
                return
            except NodeError as error:  # an agent that was killed is started again, and has all that it had
                if time.monotonic() > deadline_s:
                    self._verdict = Verdict(attempt=self._attempt, complete=False, why=str(error), refused=True)
                    return
                time.sleep(TURN_S)
            except (BbflowError, OSError) as error:
                self._verdict = Verdict(attempt=self._attempt, complete=False, why=str(error), refused=True)
                return
            except Exception as error:  # whatever it is: without a verdict the ensemble would wait forever
                traceback.print_exc()
                why = f"its analysis failed, see {LOG}: {one_line(f'{type(error).__name__}: {error}')}"
                self._verdict = Verdict(attempt=self._attempt, complete=False, why=why, refused=True)
                return

    def _analyse(self) -> Verdict | None:
        if self._was_saved and not self._stands():
            # It had come to its end, and the process that ran it was killed before it could say so.
            return self._verdict_of(complete=_status_of(self._config.output) == "complete")
        claim_output(self._config)
        with ExitStack() as stack:
            stack.enter_context(locked_output(self._config.output))
            with self._changing:
                if self._stopped.is_set():
                    return None
                self._pipeline = Pipeline(self._contact, self._config, self._cluster)
            outcome = self._pipeline.run()
        return None if outcome is None else self._verdict_of(complete=outcome.complete, why="; ".join(outcome.errors))

    def _verdict_of(self, *, complete: bool, why: str = "") -> Verdict:
        return Verdict(attempt=self._attempt, complete=complete, why=why)


def _status_of(output: Path) -> str:
    return str(shown_attributes(output / RESULTS).get("bbflow_status", ""))


def serve(
    analysis: EnsembleAnalysis, contact: Path, cluster: Cluster | None = None, *, keeper: int | None = None
) -> bool:
    """Be an ensemble's analysis until all members are over.

    Parameters
    ----------
    analysis
        What is computed.
    contact
        Where the nodes are.
    cluster
        Where tasks run; threads of this process if None.
    keeper
        The process that has started this one, and whose end is its end; None if it continues alone.

    Returns
    -------
    bool
        Whether nothing is missing.

    Raises
    ------
    ConfigError
        If another process does the same, or something in the output is in the way.
    NodeError
        If the keeper has been killed, and its nodes with it.
    """
    output = analysis.output
    output.mkdir(parents=True, exist_ok=True)
    claim_ensemble(output)
    (output / LOCK).parent.mkdir(exist_ok=True)
    with ExitStack() as stack:
        stack.enter_context(
            locked_alone(output / LOCK, f"another process is the analysis of the ensemble in {output}", create=True)
        )
        if cluster is None:
            cluster = stack.enter_context(local_cluster(analysis.member.workers))
        gathering = EnsembleFold(analysis, partial(MemberRun, analysis, contact, cluster), tell)
        try:
            return _gather(gathering, analysis, keeper)
        finally:
            gathering.close()


def _gather(gathering: EnsembleFold, analysis: EnsembleAnalysis, keeper: int | None) -> bool:
    output, written_s = analysis.output, 0.0
    while True:
        if keeper is not None and os.getppid() != keeper:
            raise NodeError("the process that keeps the ensemble was killed: 'bbflow ensemble up' continues it")
        if (output / DOWN).exists():
            gathering.end()
        busy = gathering.turn()
        if time.monotonic() - written_s > STATUS_S:
            write_status(gathering, analysis, "running")
            written_s = time.monotonic()
        if not busy and gathering.is_over:
            break
        time.sleep(0 if busy else TURN_S)
    complete = gathering.finish()
    write_status(gathering, analysis, "complete" if complete else "incomplete")
    return complete


@contextmanager
def told_contact(output: Path, contact: Path) -> Iterator[None]:
    """Publish to members where the nodes are, for as long as the ``with`` lasts."""
    (output / CONTACT).parent.mkdir(parents=True, exist_ok=True)
    write_whole(output / CONTACT, str(contact.resolve()))
    try:
        yield
    finally:
        (output / CONTACT).unlink(missing_ok=True)


# The process that keeps the nodes, and starts the analysis again


def keep(config: Path, analysis: EnsembleAnalysis, contact: Path | None, scheduler: str | None) -> int:
    """Keep an ensemble until it is over: its nodes, if no contact file is given, and the process of its analysis.

    Returns
    -------
    int
        0 if nothing is missing, 3 if something is, else what the analysis ended with.
    """
    own = analysis.member.nodes
    output = analysis.output
    output.mkdir(parents=True, exist_ok=True)
    claim_ensemble(output)
    (output / UP).parent.mkdir(exist_ok=True)
    with (
        locked_alone(output / UP, f"the ensemble in {output} is up already: see 'bbflow ensemble status'", create=True),
        (nodes := None if contact else EmbeddedNodes(own.count, own.capacity, own.directory)) or nullcontext(),
    ):
        told = contact if contact is not None else nodes.contact if nodes is not None else None
        assert told is not None
        _begin_keeping(output)
        with told_contact(output, told), run_name() as name:
            words = [sys.executable, "-m", "bbflow", "ensemble", "serve", str(config), "--contact", str(told)]
            words += ["--keeper", str(os.getpid())]
            words += ["--scheduler", scheduler] if scheduler else []
            return _keep_serving(words, os.environ | {VARIABLE: name}, output)


def _begin_keeping(output: Path) -> None:
    """Note which host keeps the ensemble, as soon as the analysis has ended whose keeper was killed."""
    deadline_s = time.monotonic() + ENDING_S
    while (held := lock(output / LOCK, wait=False)) is None:
        if time.monotonic() > deadline_s:
            raise ConfigError(f"another process is the analysis of the ensemble in {output}: end it first")
        time.sleep(TURN_S)
    os.close(held)
    (output / STATUS).unlink(missing_ok=True)  # that analysis may have written it since 'up' removed it
    write_whole(output / HOST, socket.gethostname())


def _keep_serving(words: Sequence[str], environment: Mapping[str, str], output: Path) -> int:
    """Start the analysis again as long as it is killed, or what fails may pass, and it gets any further."""
    fruitless, reached = 0, -1
    while True:
        code = subprocess.run(words, env=dict(environment), stdin=subprocess.DEVNULL).returncode
        before, reached = reached, _reached(output)
        fruitless = 0 if reached > before else fruitless + 1
        if (code >= 0 and code not in PASSING) or fruitless > TRIES:
            return code if code >= 0 else 128 - code
        tell(f"the ensemble's analysis {describe_end(code)}; it is started again")
        time.sleep(0.1 * 2**fruitless)


def _reached(output: Path) -> int:
    """Return how many times of members are folded, as far as the analysis has said."""
    with suppress(ConfigError):
        return sum(member.times for member in read_status(output).members)
    return -1
