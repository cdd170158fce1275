"""Where a survey and its mosaic lie: directories, or what URLs such as ``s3://bucket/survey`` name."""

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from bbflow.errors import ConfigError, MissingSourceError
from bbflow.staging.retry import Retry, persist
from bbflow.stores.facts import Listed
from bbflow.stores.sources import Sources, local_path

Place = str | os.PathLike[str]
TILES = "tile*.fits"
RETRY = Retry(attempts=5)
"""About two seconds: someone waits for it."""


def is_remote(place: Place) -> bool:
    """Whether a place is a URL of shared storage, and no path of this host's."""
    return local_path(os.fspath(place)) is None


def named(place: Place) -> str:
    """Return a place without a slash at its end: an absolute path, or the URL."""
    text = os.fspath(place)
    path = local_path(text)
    return text.rstrip("/") if path is None else str(path)


def below(place: Place, name: str) -> str:
    """Return what is below a place."""
    return f"{named(place)}/{name}"


def tiles_in(place: Place) -> list[str]:
    """List the tiles of a survey, sorted.

    Raises
    ------
    ValueError
        If there are none.
    """
    tiles = sorted(below(place, file.name) for file in _files(place) if fnmatchcase(file.name, TILES))
    if not tiles:
        raise ValueError(f"{place} has no {TILES}: make some with the command 'tiles'")
    return tiles


def has(place: Place, name: str) -> bool:
    """Whether a place has a file of this name."""
    return any(file.name == name for file in _files(place))


def reach(place: Place) -> None:
    """Look whether a place answers, before anything is computed for it; it may be empty yet.

    Raises
    ------
    SourceError
        If it doesn't.
    """
    if is_remote(place):
        with suppress(MissingSourceError):
            _files(place)


def _files(place: Place) -> list[Listed]:
    url = named(place)
    files, _ = persist(lambda: Sources().children(url), url, RETRY)
    return files


@contextmanager
def at_hand(urls: Sequence[str]) -> Iterator[list[Path]]:
    """Yield paths of files for as long as a ``with`` lasts: their own, or those of copies under the same names."""
    sources = Sources()
    with TemporaryDirectory(prefix="bbflow-montage-") as scratch:
        yield [local_path(url) or _copied(sources, url, Path(scratch)) for url in urls]


def _copied(sources: Sources, url: str, scratch: Path) -> Path:
    path = scratch / url.rpartition("/")[2]

    def copy() -> None:
        facts = sources.facts(url)
        with sources.open(url, facts) as reader:
            path.write_bytes(reader.read(0, facts.size_bytes or 0))

    persist(copy, url, RETRY)
    return path


@contextmanager
def filling(place: Place) -> Iterator[Path]:
    """Yield a directory whose files are at a place when the ``with`` ends well."""
    path = local_path(os.fspath(place))
    if path is not None:
        yield path
        return
    with TemporaryDirectory(prefix="bbflow-montage-") as scratch:
        yield Path(scratch)
        put(sorted(Path(scratch).iterdir()), place)


def put(files: Sequence[Path], place: Place) -> None:
    """Copy files to a place, unless they are there."""
    sources = Sources()
    for file in files:
        if (target := below(place, file.name)) != str(file.absolute()):
            persist(partial(_put, sources, file, target), target, RETRY)


def _put(sources: Sources, file: Path, target: str) -> None:
    with file.open("rb") as content, sources.create(target, file.stat().st_size) as copy:
        shutil.copyfileobj(content, copy)


def on_mount(place: Place, mounted: str | None, is_mount: Callable[[str], bool] = os.path.ismount) -> str:
    """Return the path on a mount of what a URL names.

    Parameters
    ----------
    place
        A path, which stays as it is, or a URL.
    mounted
        ``URL=DIRECTORY``: what is mounted where; None if nothing is.
    is_mount
        Tells whether something is mounted on a directory.

    Raises
    ------
    ConfigError
        If the mount doesn't have this URL, or isn't there.
    """
    if mounted is None or not is_remote(place):
        return named(place)
    url, equals, directory = mounted.rpartition("=")
    if not equals or not urlsplit(url).scheme:
        raise ConfigError(f"--mount {mounted}: write what is mounted where, as s3://bucket/prefix=DIRECTORY")
    root, wanted = url.rstrip("/"), named(place)
    if not (wanted + "/").startswith(root + "/"):
        raise ConfigError(f"{wanted} isn't below {root}, which is mounted on {directory}")
    if not is_mount(directory):
        raise ConfigError(f"nothing is mounted on {directory}: bbflow mount CONTACT {directory}")
    return os.path.abspath(directory) + wanted.removeprefix(root)
