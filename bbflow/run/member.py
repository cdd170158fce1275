"""Running a member's program, whose steps the ensemble's analysis takes."""

import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from bbflow.ensemble.ensemble_settings import EnsembleAnalysis, suffix_of
from bbflow.ensemble.places import CONTACT
from bbflow.ensemble.roster import MemberAttempt, MemberRoster
from bbflow.errors import ConfigError
from bbflow.host.log import tell
from bbflow.run.selecting import Opens, simulation_environment
from bbflow.run.supervise import start_program, stop_process

SUFFIX_VARIABLE = "BBFLOW_STREAM_SUFFIX"
POLL_S = 0.1
LOOK_S = 1.0
"""How often it looks whether the member was given up."""
UP_S = 60.0
"""How long a member waits for its ensemble."""


def run_member(analysis: EnsembleAnalysis, member: str, command: Sequence[str], before: dict[str, str]) -> int:
    """Run a member's program until it ends, or the member is given up.

    Parameters
    ----------
    analysis
        The ensemble's configuration.
    member
        Its name.
    command
        The program.
    before
        Its environment without bbflow.

    Returns
    -------
    int
        The program's exit code, as a shell has it; 0, started or not, if there is enough of the member.

    Raises
    ------
    ConfigError
        If there is no such member, it runs already, or the ensemble isn't up.
    """
    check_member(analysis, member)
    contact = wait_for_contact(analysis.output)
    roster = MemberRoster(analysis.output)
    known = roster.members((member,))[member]
    if known.standing.is_enough:
        tell(f"member {member} need not start: {known.mark.why if known.mark else ''}")
        return 0
    attempt = roster.begin(member)
    code = 1
    try:
        environment = simulation_environment(analysis.member, contact, Opens(None, command, selects=False), before)
        environment[SUFFIX_VARIABLE] = suffix_of(member, attempt.number)
        code = _run_program(roster, member, attempt, command, environment)
    finally:
        roster.end(member, attempt, code)
    # One that was ended since there is enough is no failure to whoever started it.
    return 0 if code and roster.members((member,))[member].standing.is_enough else code


def check_member(analysis: EnsembleAnalysis, member: str) -> None:
    """Check that there is such a member.

    Raises
    ------
    ConfigError
        If there isn't.
    """
    ensemble = analysis.ensemble
    if member not in ensemble.runs:
        names = ensemble.everyone
        told = f"1 to {len(names)}" if names == tuple(str(n + 1) for n in range(len(names))) else ", ".join(names)
        told += f", each from {', '.join(ensemble.starts)} and named START.NAME" if ensemble.starts else ""
        raise ConfigError(f"there is no member {member!r} in the ensemble {ensemble.name}: its members are {told}")


def wait_for_contact(output: Path) -> Path:
    """Return the contact file of an ensemble that is up.

    Raises
    ------
    ConfigError
        If it isn't.
    """
    deadline_s = time.monotonic() + UP_S
    while time.monotonic() < deadline_s:
        with suppress(FileNotFoundError):
            contact = Path((output / CONTACT).read_text())
            if contact.exists():
                return contact
        time.sleep(POLL_S)
    raise ConfigError(f"the ensemble in {output} isn't up: start it with 'bbflow ensemble up'")


def _run_program(
    roster: MemberRoster, member: str, attempt: MemberAttempt, command: Sequence[str], environment: dict[str, str]
) -> int:
    process = start_program(command, environment)
    looked_s = time.monotonic()
    try:
        while True:
            with suppress(subprocess.TimeoutExpired):
                code = process.wait(POLL_S)
                return 128 - code if code < 0 else code
            if time.monotonic() - looked_s > LOOK_S:
                looked_s = time.monotonic()
                mark = roster.members((member,))[member].mark
                if mark is not None and mark.attempt >= attempt.number:
                    tell(f"member {member} is {mark.standing}: {mark.why}; its program gets SIGTERM")
                    process.send_signal(signal.SIGTERM)
                    looked_s = float("inf")
    except KeyboardInterrupt:
        process.send_signal(signal.SIGINT)
        code = process.wait()
        return 128 - code if code < 0 else code
    finally:
        stop_process(process)
