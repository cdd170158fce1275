"""What a job script asks for: lines ``#BB_LUA stage_in source=… dest=…``. All of it is pure."""

import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from bbflow.errors import ConfigError, nearest
from bbflow.stores.local_files import path_of
from bbflow.stores.urls import is_local
from bbflow.units import format_bytes, parse_bytes

MARK = "#BB_LUA"
WORDS = {"stage_in": ("source", "dest"), "stage_out": ("source", "dest"), "stream": ("analysis",)}
"""What each line may say; one without such a word is Slurm's own: pool and capacity."""
MOST_SIGNS = 64 << 10
"""Of all these lines together: splitting them takes microseconds a sign, and Slurm's controller waits for it."""
OWN = ("pool", "capacity")
"""Read by Slurm itself, which takes a negative capacity, and one that no job ever gets, and gives no reasons."""
_UNIT = re.compile(r"(?<=\d)[KMGT]$", re.IGNORECASE)
"""A unit that is a power of 1024 to Slurm, and of 1000 in all other places of bbflow."""


@dataclass(frozen=True, slots=True)
class Pool:
    """What there is to give away."""

    name: str
    """As ``pool=`` names it."""
    most_bytes: int
    """What a job may ask for at most."""
    unit_bytes: int = 1
    """Of what it is given a multiple."""


@dataclass(frozen=True, slots=True)
class StageIn:
    """Files that are to lie on the burst buffer when the job begins."""

    source: str
    """A path, a URL, or a pattern, of one file or many."""
    dest: str
    """Where below the job's directory: of one file its path, of many the directory that they come into."""


@dataclass(frozen=True, slots=True)
class StageOut:
    """What the job has made, and where it is to go after it."""

    source: str
    """Below the job's directory: a file, or a directory with all that is below it."""
    dest: str
    """A path or a URL."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """All that a job script asks for."""

    stage_in: tuple[StageIn, ...]
    """In the order of the script."""
    stage_out: tuple[StageOut, ...]
    """Likewise."""
    analysis: Path | None = None
    """Configuration of the analysis that is to run beside the job."""


def parse_script(lines: Iterable[str], pool: Pool | None = None) -> Wishes:
    """Read a job script.

    Parameters
    ----------
    lines
        Its lines.
    pool
        What Slurm's own lines are checked against; None if they have been.

    Raises
    ------
    ConfigError
        If a line says what can't be meant, the message has its number; or if they say too much.
    """
    ins, outs, streams, signs, asked_bytes = [], [], list[Path](), 0, 0
    for number, line in enumerate(lines, 1):
        if line.split(None, 1)[:1] != [MARK]:
            continue
        signs += len(line)
        try:
            # Before a line is taken apart: to split a long one kept Slurm's controller waiting.
            if signs > MOST_SIGNS:
                raise ConfigError(f"lines {MARK} may have {MOST_SIGNS} signs together: name files by a pattern")
            text = line.split(None, 1)[1].strip() if len(line.split(None, 1)) > 1 else ""
            wish = parse_line(text)
            if pool is not None and text and (wish is None or "capacity=" in text):
                asked_bytes += _room_asked(text, pool)
                if asked_bytes > pool.most_bytes:
                    has = f"pool {pool.name} has {format_bytes(pool.most_bytes)}"
                    raise ConfigError(f"{text}: that makes {format_bytes(asked_bytes)}, and {has}; ask for less")
            match wish:
                case StageIn():
                    ins.append(wish)
                case StageOut():
                    outs.append(wish)
                case Path():
                    if streams:
                        raise ConfigError("a job has one stream line, and there is one above")
                    streams.append(wish)
        except ConfigError as error:
            raise ConfigError(f"line {number} of the job script: {error}") from None
    _check_dests("in", [wish.dest for wish in ins])
    _check_dests("out", [wish.dest for wish in outs])
    return Wishes(tuple(ins), tuple(outs), *streams)


def _check_dests(way: str, dests: Sequence[str]) -> None:
    seen = set[str]()
    for dest in dests:
        # One place has many names: '/out/' is '/out', and 'file:///out'.
        # To normpath, two slashes at the beginning aren't one.
        place = os.path.normpath(path_of(dest)).replace("//", "/") if is_local(dest) else dest.rstrip("/")
        if place in seen:
            raise ConfigError(f"two lines stage {way} to {dest}: give each a dest of its own")
        seen.add(place)


def parse_line(text: str) -> StageIn | StageOut | Path | None:
    """Read what stands behind `MARK`: of a stream the path of its analysis; None if it is Slurm's own."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ConfigError(f"{text!r}: {error}") from None
    if not words or words[0].partition("=")[0] in OWN:
        return None
    kind, *rest = words
    if kind not in WORDS:
        raise ConfigError(f"{kind!r} is nothing that can be asked for; {nearest(kind, [*WORDS, *OWN])}")
    found = _values(kind, rest, WORDS[kind])
    if kind == "stream":
        return _analysis(found["analysis"])
    if kind == "stage_in":
        return StageIn(found["source"], below(found["dest"], "dest"))
    return StageOut(below(found["source"], "source"), found["dest"])


def _room_asked(text: str, pool: Pool) -> int:
    """Return what Slurm takes a line to ask for; refuse what it would take for something else, or without a reason."""
    words = text.split()
    if words[0].partition("=")[0] not in OWN:
        raise ConfigError(
            f"{text}: Slurm takes 'capacity=' for room, wherever it is in a line; give the file another name"
        )
    found = _values(MARK, words, OWN)
    if found["pool"] != pool.name:
        raise ConfigError(f"pool={found['pool']}: there is no such pool; write pool={pool.name}")
    size = found["capacity"]
    if "." in size:
        raise ConfigError(f"capacity={size}: Slurm reads whole numbers only, such as 512MiB")
    asked_bytes = parse_bytes(_UNIT.sub(r"\g<0>iB", size))
    return -(-asked_bytes // pool.unit_bytes) * pool.unit_bytes


def _values(kind: str, words: Iterable[str], names: Sequence[str]) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for word in words:
        name, mark, value = word.partition("=")
        if not mark or name not in names:
            raise ConfigError(f"{kind} has {word!r}; {nearest(name, names)}, each as NAME=VALUE")
        if name in found or not value:
            raise ConfigError(f"{kind} has {word!r}: each is said once, and has a value")
        found[name] = value
    for name in names:
        if name not in found:
            raise ConfigError(f"{kind} lacks {name}=: write {kind} {' '.join(f'{each}=…' for each in names)}")
    return found


def _analysis(path: str) -> Path:
    if not path.startswith("/"):
        raise ConfigError(f"analysis={path}: write the whole path, from the root, since Slurm reads it elsewhere")
    return Path(path)


def below(path: str, name: str) -> str:
    """Check a path below the job's directory."""
    parts = PurePosixPath(path).parts
    if path.startswith("/") or ".." in parts or not parts or parts[0].startswith(".bbflow"):
        raise ConfigError(f"{name}={path}: it is a path below the job's directory on the burst buffer, without '..'")
    return str(PurePosixPath(path))
