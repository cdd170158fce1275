"""What a job script asks for, read and done as its user: see `child`."""

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from bbflow.errors import CapacityError, ConfigError, SourceError
from bbflow.host.held import open_regular
from bbflow.phases import BoardSource, PhaseSource
from bbflow.staging import File, Gate, Retry, Sources, Stager, expand, parse_policy
from bbflow.staging.policies import NoAction
from bbflow.staging.shelf import make_writable
from bbflow.staging.transfers import stage_out
from bbflow.staging.watched import WatchedGate
from bbflow.stores.facts import Listed
from bbflow.units import format_bytes
from bbflow_slurm.directives import Pool, StageIn, Wishes, parse_script
from bbflow_slurm.reach import Reach
from bbflow_slurm.streams import JobStream

MOST_ANALYSIS_BYTES = 1 << 20
STAGED = ".bbflow-staged"


def wishes_of(script: int, pool: Pool | None = None) -> Wishes:
    """Read an open job script; see `parse_script`."""
    with os.fdopen(os.dup(script), encoding="utf-8", errors="surrogateescape") as file:
        # A descriptor's copy shares its place in the file, which whoever read before has moved.
        file.seek(0)
        return parse_script(file, pool)


def check(script: int, pool: Mapping[str, Any] | None, *, may_read: bool) -> bool:
    """Return what is wrong with a job script.

    Parameters
    ----------
    script
        Open.
    pool
        What Slurm's own lines are checked against; None if the analysis is read instead. The user's own modules aren't
        imported for that: what follows from them is told on the job's hosts.
    may_read
        Whether this is the user who must be able to read the analysis.

    Returns
    -------
    bool
        Whether the job has a stream.
    """
    analysis = wishes_of(script, None if pool is None else Pool(**pool)).analysis
    if analysis is None:
        return False
    if may_read:
        os.close(open_regular(analysis, MOST_ANALYSIS_BYTES))
    if pool is None:
        from bbflow.configuring.config import check_config

        check_config(analysis)
    return True


class JobCopies:
    """Copies what a job reads and makes.

    Parameters
    ----------
    directory
        The job's.
    capacity_bytes
        What may lie there.
    site
        Of the site's file: `policy`, `phases`, `fetchers`, `sources`, `schemes` and `hosts`.
    """

    def __init__(self, directory: Path, capacity_bytes: int, site: Mapping[str, Any]) -> None:
        self._path, self._capacity_bytes, self._site = directory, capacity_bytes, site
        self._policy = parse_policy(site["policy"])
        self._phases: PhaseSource | None = BoardSource(Path(site["phases"])) if site["phases"] else None
        self._reach = Reach(site["schemes"], site["hosts"])
        self._reach.enforce()
        self._sources = Sources(site["sources"])

    def stage_in(self, script: int) -> None:
        """Copy what the job reads, and note the analysis that is to run beside it.

        Raises
        ------
        SourceError, CapacityError, ConfigError
            If a file can't be had, or all together have no room.
        """
        wishes = wishes_of(script)
        for wish in wishes.stage_in:
            self._reach.check(wish.source)
        places = dict(_places(wishes.stage_in, self._sources))
        files = [File(url, size) for url, size in places.values()]
        _check_room(sum(file.size_bytes or 0 for file in files), self._capacity_bytes)
        with Stager(
            self._path / STAGED,
            self._capacity_bytes,
            1,
            policy=self._policy,
            phases=self._phases,
            fetchers=self._site["fetchers"],
            options=self._site["sources"],
        ) as stager:
            found = stager.submit("the job", files).result()
            for name, (url, _) in places.items():
                _give(Path(found[url]), self._path / name)
        shutil.rmtree(self._path / STAGED)
        if wishes.analysis is not None:
            JobStream(self._path, self._path.name).want(wishes.analysis)
        size_bytes = sum(path.stat().st_size for path in self._path.rglob("*") if path.is_file())
        print(f"{size_bytes} bytes are there")

    def stage_out(self, script: int) -> None:
        """Copy what the job has made; say what it didn't make.

        Raises
        ------
        SourceError
            If it can't be written; all that was made stays.
        """
        wishes = wishes_of(script).stage_out
        for wish in wishes:
            self._reach.check(wish.dest)
        with self._gate() as gate:
            for wish in wishes:
                path = self._path / wish.source
                if path.exists():
                    stage_out(path, wish.dest, self._sources, gate, Retry())
                else:
                    print(f"the job didn't make {wish.source}: nothing is staged out for it")

    def _gate(self) -> AbstractContextManager[Gate]:
        free = isinstance(self._policy, NoAction)
        return nullcontext(Gate(1)) if free else WatchedGate(self._policy, self._phases).watched()


def copying(facts: Mapping[str, Any]) -> JobCopies:
    """Return what copies, as root has told it."""
    return JobCopies(Path(facts["directory"]), facts["capacity_bytes"], facts["site"])


def _give(copy: Path, target: Path) -> None:
    """Put a copy into the job's directory, which is the job's to write to; into two places it comes as two files."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if copy.stat().st_nlink == 1:
            os.link(copy, target)
            make_writable(target)
        else:
            shutil.copyfile(copy, target)
    except (FileExistsError, IsADirectoryError, NotADirectoryError):
        raise ConfigError(f"{target}: a file would be a directory too: give them dests of their own") from None


def _check_room(size_bytes: int, capacity_bytes: int) -> None:
    if size_bytes > capacity_bytes:
        raise CapacityError(
            f"what is to be staged in has {format_bytes(size_bytes)}, and the job asked for "
            f"{format_bytes(capacity_bytes)}: ask for more by '#BB_LUA pool=… capacity=…'"
        )


def _places(wishes: tuple[StageIn, ...], sources: Sources) -> Iterator[tuple[str, tuple[str, int | None]]]:
    """Return the name of each file below the job's directory; no two have the same."""
    seen: dict[str, str] = {}
    for wish in wishes:
        for name, file in _named(wish, expand(wish.source, sources)):
            if not file.is_usable:
                raise SourceError(f"{file.url} has a name that no path has: stage its neighbours one by one")
            if name in seen:
                raise ConfigError(f"{file.url} and {seen[name]} would both be {name}: give them dests of their own")
            seen[name] = file.url
            yield name, (file.url, file.size_bytes)


def _named(wish: StageIn, files: list[Listed]) -> Iterator[tuple[str, Listed]]:
    if len(files) == 1 and "/" not in files[0].name and files[0].url.rstrip("/") == wish.source.rstrip("/"):
        yield wish.dest, files[0]
        return
    for file in files:
        yield f"{wish.dest}/{file.name}", file
