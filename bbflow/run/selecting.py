"""Selecting the engine from outside: what a run's options and configuration tell the simulation's processes."""

import fcntl
import glob
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import bbflow_adios2

from bbflow.configuring.config import pattern
from bbflow.configuring.settings import Config, SelectConfig
from bbflow.errors import ConfigError, MissingToolError
from bbflow.host.locks import lock
from bbflow.run.checks.program import why_unseen

MOST_NAMED = 4
"""How many IOs that the program opened are named."""


def with_selected(config: Config, ios: Sequence[str], files: Sequence[str], until: str | None = None) -> Config:
    """Return a configuration with the patterns of the command line before its own rules.

    Parameters
    ----------
    config
        As it was read.
    ios, files
        Patterns of names of IOs and files.
    until
        Pattern of the last file of the configuration's stream.

    Raises
    ------
    ConfigError
        If a pattern is none, or there is no rule whose stream could end.
    """
    given = [SelectConfig(io=pattern(name)) for name in ios] + [SelectConfig(file=pattern(name)) for name in files]
    rules = (*given, *config.select)
    if until is None:
        return replace(config, select=rules)
    last = pattern(until)
    ours = [rule for rule in rules if rule.stream in (None, config.stream)]
    if not ours:
        raise ConfigError("--until is about files that are selected: give --select-io or --select-file, or 'select'")
    return replace(config, select=tuple(replace(rule, until=last) if rule in ours else rule for rule in rules))


def rules_of(config: Config) -> list[dict[str, str]]:
    """Return the rules of a configuration as `bbflow_adios2.environment` takes them."""
    return [
        {
            key: value
            for key, value in (("io", rule.io), ("file", rule.file), ("until", rule.until))
            if value is not None
        }
        | {"Stream": rule.stream or config.stream}
        | dict(rule.parameters)
        for rule in config.select
    ]


def simulation_environment(config: Config, contact: Path, opens: "Opens", before: Mapping[str, str]) -> dict[str, str]:
    """Return the environment in which a simulation finds the nodes and the engine.

    Parameters
    ----------
    config
        The run's.
    contact
        The nodes' contact file.
    opens
        Where its processes tell what they open.
    before
        What it would have without bbflow.

    Raises
    ------
    MissingToolError
        If the engine was not built.
    ConfigError
        If the engine can't be selected from outside.
    """
    try:
        told = {} if opens.path is None else {bbflow_adios2.OPENS_VARIABLE: str(opens.path)}
        return {**before, **bbflow_adios2.environment(contact, rules_of(config)), **told}
    except FileNotFoundError as error:
        raise MissingToolError(str(error)) from None
    except ValueError as error:
        raise ConfigError(str(error)) from None


@dataclass(frozen=True, slots=True)
class Opens:
    """What the simulation's processes have opened with ADIOS2, as the preloaded library saw it."""

    path: Path | None
    """A line for each Open, while the run lasts; None where it can't be written."""
    command: Sequence[str]
    """The simulation."""
    selects: bool
    """Whether the configuration selects IOs from outside."""

    def why_no_stream(self) -> str:
        """Return what is known about a simulation that ended without opening the stream; empty if nothing is."""
        seen = self._lines()
        if seen is None:
            return ""
        if not seen:
            return f"; {why_unseen(self.command)}"
        if why := next((why for kind, _, why in seen if kind == "refused"), ""):
            return f"; {why}"
        if any(kind == "selected" for kind, *_ in seen):
            return "; an IO was selected, but its Open failed: see what the program said"
        if any(kind == "old" for kind, *_ in seen):
            return (
                "; it opened files with an ADIOS2 that has the C++ library's texts of before GCC 5, as PyPI's 2.10, of "
                "which nothing can be selected from outside: name the engine in the program's XML or code, or take "
                "another ADIOS2"
            )
        written = [f"IO {io!r} with file {file!r}" for kind, io, file in seen if kind == "left"]
        if not written:
            return "; it opened nothing to write"
        more = f" and {len(written) - MOST_NAMED} more" if len(written) > MOST_NAMED else ""
        opened = f"it opened {', '.join(written[:MOST_NAMED])}{more}"
        advice = "which no rule of 'select' fits" if self.selects else "which --select-io or --select-file can select"
        return f"; {opened}, {advice}"

    def refused(self) -> list[tuple[str, str]]:
        """Return what the program was refused and no node could be told: streams, and why. It may not have looked."""
        return [(stream, why) for kind, stream, why in self._lines() or () if kind == "refused"][:MOST_NAMED]

    def failed(self) -> list[str]:
        """Name the files that were selected, and whose Open has failed."""
        return [file for kind, _, file in self._lines() or () if kind == "failed"][:MOST_NAMED]

    def _lines(self) -> list[list[str]] | None:
        """Return what was noted, each thing once: kind, IO and file; None if nothing could be."""
        if self.path is None:
            return None
        try:
            text = self.path.read_text(errors="replace")
        except OSError:
            return None
        return [line.split("\t") for line in dict.fromkeys(text.splitlines()) if line.count("\t") == 2]


@contextmanager
def noted_opens(contact: Path, command: Sequence[str], *, selects: bool) -> Iterator[Opens]:
    """Provide a place, beside the contact file that all processes see, where they note what they open.

    Parameters
    ----------
    contact
        The nodes' contact file.
    command
        The simulation.
    selects
        Whether the configuration selects IOs from outside.
    """
    prefix = f"{contact.name}.opens-"
    try:
        _remove_unheld(contact.parent, prefix)
        path, held = _held_file(contact.parent, prefix)
    except OSError:
        yield Opens(None, command, selects)
        return
    try:
        yield Opens(path, command, selects)
    finally:
        path.unlink(missing_ok=True)
        os.close(held)


def _held_file(folder: Path, prefix: str) -> tuple[Path, int]:
    """Make a file that other runs see is in use: a killed run's lock is released."""
    while True:
        held, name = tempfile.mkstemp(prefix=prefix, dir=folder)
        with suppress(OSError):  # a file system without locks
            fcntl.flock(held, fcntl.LOCK_EX)
        if os.fstat(held).st_nlink:  # else another run took it for one that was left, before it was locked
            return Path(name), held
        os.close(held)


def _remove_unheld(folder: Path, prefix: str) -> None:
    """Remove what killed runs have left."""
    for path in folder.glob(f"{glob.escape(prefix)}*"):
        with suppress(OSError):
            held = lock(path, wait=False, create=False)
            if held is not None:
                path.unlink(missing_ok=True)
                os.close(held)
