"""An ensemble as its user has it in hand: bring it up, run members, look at it, end it."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bbflow.ensemble.ensemble_config import load_ensemble
from bbflow.ensemble.ensemble_settings import EnsembleAnalysis, split_run
from bbflow.ensemble.places import CONTACT, DOWN, LOG, STATUS, STORE, claim_ensemble
from bbflow.ensemble.reference import check_references
from bbflow.ensemble.roster import MemberRoster, Standing
from bbflow.ensemble.status import EnsembleStatus, is_kept_here, is_up, read_status
from bbflow.ensemble.store import SCORES
from bbflow.errors import ConfigError, NodeError, StreamError
from bbflow.run.member import check_member, run_member

if TYPE_CHECKING:
    import xarray as xr

POLL_S = 0.2
UP_S = 60.0
SILENT_S = 5.0
"""An ensemble whose keeper isn't there, and whose status stays as it is for so long, isn't up …"""
SILENT_ELSEWHERE_S = 600.0
"""… and one that another host keeps, where not all file systems show whether its keeper is there."""


class Ensemble:
    """An ensemble, by its configuration; it continues without this object.

    Parameters
    ----------
    config
        The configuration file.

    Raises
    ------
    ConfigError
        If it can't be read, or anything in it is wrong.
    """

    def __init__(self, config: str | Path) -> None:
        self.config = Path(config)
        """The configuration file."""
        self.analysis: EnsembleAnalysis = load_ensemble(self.config)
        """What it says."""
        self._heard = 0.0, time.monotonic()
        """What its status was written at, and when that, or its keeper, was last seen."""

    @property
    def output(self) -> Path:
        """The ensemble's directory."""
        return self.analysis.output

    @property
    def is_up(self) -> bool:
        """Whether it is kept by a process of this host."""
        return is_up(self.output)

    def up(self, contact: str | Path | None = None, scheduler: str | None = None) -> None:
        """Start BB nodes and the analysis, which end with the last member.

        Parameters
        ----------
        contact
            Contact file of BB nodes that are there, in place of some of this host's.
        scheduler
            A Dask scheduler's address or scheduler file.

        Raises
        ------
        ConfigError
            If it is up already, or a reference isn't there or hasn't its variable.
        NodeError
            If it doesn't come up.
        """
        output = self.output
        if self.is_up:
            raise ConfigError(f"the ensemble in {output} is up already: see 'bbflow ensemble status'")
        check_references(self.analysis)
        output.mkdir(parents=True, exist_ok=True)
        claim_ensemble(output)
        for name in (DOWN, STATUS, CONTACT):  # a keeper that was killed leaves them
            (output / name).unlink(missing_ok=True)
        words = [sys.executable, "-m", "bbflow", "ensemble", "keep", str(self.config)]
        words += ["--contact", str(contact)] if contact else []
        words += ["--scheduler", scheduler] if scheduler else []
        with (output / LOG).open("ab") as log:
            began = log.tell()
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        threading.Thread(target=process.wait, name="keeper", daemon=True).start()  # no zombie, if this one lives longer
        deadline_s = time.monotonic() + UP_S
        while not ((output / CONTACT).exists() and (output / STATUS).exists()):
            if process.poll() is not None:
                said = (output / LOG).read_bytes()[began:].decode(errors="replace").strip().splitlines()
                raise NodeError(said[-1].removeprefix("bbflow: ") if said else "the ensemble's process ended at once")
            if time.monotonic() > deadline_s:
                raise NodeError(f"the ensemble didn't come up within {UP_S:.0f} s: see {output / LOG}")
            time.sleep(POLL_S)

    def run(self, member: str, command: Sequence[str]) -> int:
        """Run a member's program until it ends; as ``bbflow run --member``.

        Returns
        -------
        int
            Its exit code; 0, started or not, if there is enough of the member.
        """
        return run_member(self.analysis, member, command, dict(os.environ))

    def run_all(self, command: Sequence[str], at_once: int) -> dict[str, int]:
        """Run the programs of all members that aren't over, some at once, the others as these end.

        Parameters
        ----------
        command
            In its words, {member} and {start} stand for the member's name and start.
        at_once
            How many.

        Returns
        -------
        dict
            Member's name to its exit code.
        """
        runs = self.analysis.ensemble.runs
        standings = {name: own.standing for name, own in MemberRoster(self.output).members(runs).items()}
        with ThreadPoolExecutor(at_once) as pool:
            try:
                found = {
                    name: pool.submit(self.run, name, [_filled(word, name) for word in command])
                    for name in runs
                    if not standings[name].is_over
                }
                return {name: future.result() for name, future in found.items()}
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)  # those that run end by the same Ctrl-C
                raise

    def settle(self) -> bool:
        """Wait until no member runs and all that they wrote is folded; return whether nothing is missing.

        Unlike `wait` it doesn't wait for members that failed, and may be started again.
        """
        while True:
            over = self.wait(POLL_S)
            if over is not None:
                return over
            # The status lags behind the roster, and the roster of a failure behind what follows from it.
            told = [Standing(member.standing) for member in self.status().members]
            noted = [own.standing for own in MemberRoster(self.output).members(self.analysis.ensemble.runs).values()]
            is_waited_for = all({Standing.FAILED, Standing.ANNOUNCED}.intersection(one) for one in (told, noted))
            if is_waited_for and Standing.RUNNING not in (*told, *noted):
                return False

    def status(self) -> EnsembleStatus:
        """Return how each member is.

        Raises
        ------
        ConfigError
            If it was never up.
        """
        return read_status(self.output)

    def lose(self, member: str, why: str) -> None:
        """Wait no more for a member: what it gave stays."""
        self._mark(member, Standing.LOST, why)

    def spare(self, member: str, why: str) -> None:
        """Keep a member that hasn't begun from starting: there are enough.

        Raises
        ------
        ConfigError
            If it has begun, or is the truth.
        """
        if split_run(member)[1] == self.analysis.ensemble.truth:
            raise ConfigError(f"{member} is the truth, which the scores need: only members can be spared")
        self._mark(member, Standing.SPARED, why)

    def _mark(self, member: str, standing: Standing, why: str) -> None:
        check_member(self.analysis, member)
        roster = MemberRoster(self.output)
        known = roster.members((member,))[member].standing
        if standing is Standing.SPARED and known is not Standing.ANNOUNCED:
            raise ConfigError(f"member {member} is {known.value}: only one that hasn't begun can be spared")
        roster.mark(member, standing, why)

    def down(self) -> None:
        """End it: members that aren't done are lost, and what they gave is published; `wait` for that.

        Raises
        ------
        ConfigError
            If it isn't up.
        """
        if not self.is_up:
            raise ConfigError(f"the ensemble in {self.output} isn't up")
        (self.output / DOWN).touch()

    def wait(self, timeout_s: float | None = None) -> bool | None:
        """Wait until it is over.

        Returns
        -------
        bool or None
            Whether nothing is missing; None if the time is up.

        Raises
        ------
        NodeError
            If it has ended before, by a kill: `up` continues it.
        """
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        while deadline_s is None or time.monotonic() < deadline_s:
            is_up = self.is_up  # first: its keeper goes once the status is the last one
            status = self.status()
            if status.state != "running":
                return status.state == "complete"
            if is_up or status.written_s != self._heard[0]:
                self._heard = status.written_s, time.monotonic()
            silent_s = time.monotonic() - self._heard[1]
            if silent_s > (SILENT_S if is_kept_here(self.output) else SILENT_ELSEWHERE_S):
                why = f"isn't up any more, see {self.output / LOG}: 'bbflow ensemble up' continues it"
                raise NodeError(f"the ensemble in {self.output} {why}")
            time.sleep(POLL_S)
        return None

    def results(self) -> "xr.DataTree":
        """Open ``ensemble.zarr``: statistics at the root, the group ``scores``, and in that one for each region."""
        import xarray as xr  # late: the command line needs it seldom

        from bbflow.transit.output.decoding import open_results
        from bbflow.zarr_store.growing import GrowingZarr

        path = self.output / STORE
        groups: dict[str, Any] = {"/": open_results(path)}
        shown = GrowingZarr(path)
        regions = {name for own in self.analysis.fields if own.scores is not None for name in own.scores.regions}
        for name in (name for name in (SCORES, *(f"{SCORES}/{own}" for own in sorted(regions))) if name in shown):
            groups[name] = xr.open_zarr(path, group=name, decode_timedelta=False)
        return xr.DataTree.from_dict(groups)

    def live(self) -> "xr.Dataset":
        """Open what members that run have on the nodes now, as one lazy dataset along ``realization``.

        Times are those that any of them has; what one hasn't is missing. Steps that are folded are gone from the nodes.

        Raises
        ------
        StreamError
            If none has a step there.
        """
        import xarray as xr

        contact = Path((self.output / CONTACT).read_text()) if (self.output / CONTACT).exists() else None
        opened: dict[str, xr.Dataset] = {}
        for name, member in MemberRoster(self.output).members(self.analysis.ensemble.runs).items():
            if contact is not None and member.attempt is not None and not member.standing.is_over:
                stream = self.analysis.stream_of(name, member.number)
                try:
                    opened[name] = xr.open_dataset(contact, engine="bbflow", stream=stream, chunks={})
                except StreamError:  # it has no step there
                    continue
        if not opened:
            raise StreamError(f"no member of the ensemble in {self.output} has a step on the nodes now")
        along = xr.DataArray(list(opened), dims="realization", name="realization")
        return xr.concat(
            list(opened.values()), along, data_vars="all", coords="minimal", compat="override", join="outer"
        )


def _filled(word: str, run: str) -> str:
    start, member = split_run(run)
    return word.replace("{member}", member).replace("{start}", start)
