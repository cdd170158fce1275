"""Many files by one word: ``dir/``, ``s3://bucket/prefix/*.fits``, ``data/**/*.nc``, from every kind of store."""

import os
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from bbflow.errors import BbflowError, ConfigError, SourceError
from bbflow.host.log import tell
from bbflow.staging.retry import reason_of
from bbflow.stores.facts import Listed
from bbflow.stores.local_files import path_of
from bbflow.stores.sources import Sources
from bbflow.stores.urls import HTTP, below, decode, file_name, is_local, is_plain

ANY_DEPTH = "**"


def has_wildcard(text: str) -> bool:
    """Whether there is ``*``, ``?`` or ``[`` in a URL; in HTTP's only ``*`` counts, since the others have a meaning."""
    return any(mark in text for mark in ("*" if text.startswith(HTTP) else "*?["))


def expand(word: str, sources: Sources) -> list[Listed]:
    """Return the files that a word stands for.

    A file of just this name is that one. Else a pattern matches as a shell's does: ``*`` and ``?`` not across ``/``,
    ``**`` any directories, and nothing hidden unless the dot is written. A directory, which ends with ``/`` unless it
    is on this host, stands for all below it.

    Parameters
    ----------
    word
        A path or a URL.
    sources
        Lists it.

    Returns
    -------
    list of Listed
        Sorted; each name is its path below what comes before the first wildcard, or below the directory's parent.

    Raises
    ------
    SourceError
        If nothing matches, or a directory can't be listed.
    ConfigError
        If a wildcard stands where a host or a bucket must be named.
    """
    one = named(word, sources)
    return many(word, sources) if one is None else [one]


def many(word: str, sources: Sources) -> list[Listed]:
    """Return the files that a word stands for which names no single one; see `expand`."""
    try:
        found = list(_found(_path_first(word), sources))
    except (BbflowError, OSError):
        raise
    except Exception as error:  # what a client raises depends on the protocol
        raise SourceError(f"{word} can't be listed: {reason_of(error)}") from error
    if not found:
        raise SourceError(f"{word} matches no file: check it; a directory's files are dir/*, and dir/ is all below it")
    return sorted(found, key=lambda file: file.name)


def named(word: str, sources: Sources) -> Listed | None:
    """Return the one file that a word names; None if it stands for as many as there are.

    What exists by its name is that, whatever characters are in it. Sources that are elsewhere are asked only where
    there is a doubt.
    """
    word = _path_first(word)
    if is_local(word) and os.path.lexists(path_of(word)):
        is_one = not os.path.isdir(path_of(word))
    else:
        is_one = not word.endswith("/") and (not has_wildcard(word) or _is_there(word, sources))
    return Listed(word, _name_of(word), None) if is_one else None


def _is_there(url: str, sources: Sources) -> bool:
    if is_local(url):
        return False
    try:
        sources.facts(url)
    except Exception:  # if it isn't for a missing file, listing says why
        return False
    return True


def _path_first(word: str) -> str:
    """Write a relative path that is there so that it means nothing else: ``a::b`` would be a chain of file systems."""
    is_doubtful = "://" not in word and not word.startswith("~/") and not is_plain(word)
    return f"./{word}" if is_doubtful and word != "~" and os.path.lexists(word) else word


def _name_of(url: str) -> str:
    """Return a file's name in a tree, where what a query says keeps two of them apart."""
    query = url.partition("?")[2] if url.startswith(HTTP) else ""
    return f"{file_name(url)}?{query.replace('/', '%2F')}" if query else file_name(url)


def _found(word: str, sources: Sources) -> Iterator[Listed]:
    if has_wildcard(word) and not (is_local(word) and os.path.isdir(path_of(word))):
        root, segments = _parted(word)
        yield from _matching(sources, root, segments, "")
        return
    root = word.rstrip("/") or "/"
    above = _last(os.path.abspath(path_of(root)) if is_local(root) else root.partition("://")[2])
    above = decode(above) if root.startswith(HTTP) else above
    for file in _usable(sources.tree(root, directories=True)):
        yield Listed(file.url, f"{above}/{file.name}".lstrip("/"), file.size_bytes)


def _parted(pattern: str) -> tuple[str, list[str]]:
    """Part a pattern into the directory before its first wildcard, and the segments from there on."""
    segments = pattern.split("/")
    first = next(number for number, segment in enumerate(segments) if has_wildcard(segment))
    if "://" in pattern and first < 3:
        raise ConfigError(f"{pattern}: a host or a bucket can't be a pattern; name it, and write patterns after it")
    rest = segments[first:]
    if not rest[-1]:
        rest[-1] = ANY_DEPTH
    root = "/".join(segments[:first])
    return root or ("/" if first else ""), rest


def _matching(sources: Sources, url: str, segments: list[str], above: str) -> Iterator[Listed]:
    """List level by level, so that other directories are not gone through; below ``**`` all is listed at once."""
    first, rest = segments[0], segments[1:]
    if first == ANY_DEPTH:
        below_it = sources.tree(url, directories=True)
        for file in _usable(file for file in below_it if _fits(file.name.split("/"), segments)):
            yield Listed(file.url, above + file.name, file.size_bytes)
        return
    files, directories = sources.children(url)
    if rest:
        for name in _chosen(sorted(directories), first):
            yield from _matching(sources, below(url, name), rest, f"{above}{name}/")
    else:
        names = set(_chosen([file.name for file in files], first))
        for file in _usable(file for file in files if file.name in names):
            yield Listed(file.url, above + file.name, file.size_bytes)


def _chosen(names: list[str], segment: str) -> list[str]:
    """Return those that fit; one that is exactly what was written is that, and nothing else is meant."""
    return [segment] if segment in names else [name for name in names if _fits_one(name, segment)]


def _usable(files: Iterable[Listed]) -> Iterator[Listed]:
    """Yield what can be staged; what else was meant is told."""
    for file in files:
        if not file.is_usable:
            tell(f"{file.url!r} is left out: {_why_not(file)}")
        elif not file.is_directory:
            yield file


def _why_not(file: Listed) -> str:
    if not is_local(file.url):
        return "its name isn't a path"
    if file.is_directory:
        return "links to directories aren't followed here"
    return "it isn't a regular file" if os.path.exists(path_of(file.url)) else "it is a link to nothing"


def _fits(names: list[str], segments: list[str]) -> bool:
    if not segments:
        return not names
    if segments[0] != ANY_DEPTH:
        return bool(names) and _fits_one(names[0], segments[0]) and _fits(names[1:], segments[1:])
    if len(segments) == 1:
        return not any(name.startswith(".") for name in names)
    return _fits(names, segments[1:]) or (bool(names) and names[0][:1] != "." and _fits(names[1:], segments))


def _fits_one(name: str, segment: str) -> bool:
    return fnmatchcase(name, segment) and (segment.startswith(".") or not name.startswith("."))


def _last(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]
