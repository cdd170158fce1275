"""Staged files by plain names: a listing of what lies where, and a tree of links."""

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from bbflow.errors import ConfigError, SourceError
from bbflow.host.atomic import replacing, write_whole

LISTING, TREE = "listing.tsv", "tree"
_ESCAPES = {"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"}
"""What would end a field or a line, as other programs write it in tables."""
_STAGED = re.compile(r".*/files/[^/]+/[^/]+", re.DOTALL)
"""Where a listing says that files lie, whatever name its directory had then."""
_MEANINGS = {escape: mark for mark, escape in _ESCAPES.items()}


def write_listing(directory: Path, places: Mapping[str, Path]) -> Path:
    r"""Write which file lies where: URL, tab, path; what an earlier listing had and is still there stays in it.

    Tabs, ends of lines and backslashes in them are ``\t``, ``\n``, ``\r`` and ``\\``.

    Parameters
    ----------
    directory
        Where files are staged to.
    places
        URL to path.

    Raises
    ------
    ConfigError
        If something else is there.
    """
    path = directory / LISTING
    listed = {url: place for url, place in _listed(path).items() if os.path.exists(place)}
    listed |= {url: str(place) for url, place in places.items()}
    lines = "".join(f"{_field(url)}\t{_field(place)}\n" for url, place in listed.items())
    write_whole(path, lines.encode(errors="surrogateescape"))  # a path may have bytes that are no UTF-8
    return path


def check_listing(directory: Path) -> None:
    """Refuse to write a listing in the place of another file.

    Raises
    ------
    ConfigError
        If there is one.
    """
    _listed(directory / LISTING)


def _listed(path: Path) -> dict[str, str]:
    if not os.path.lexists(path):
        return {}
    text = path.read_text(encoding="utf-8", errors="surrogateescape") if path.is_file() else "something else"
    rows = [[_meant(field) for field in line.split("\t")] for line in text.split("\n") if line]
    if not all(len(row) == 2 and _STAGED.fullmatch(row[1]) for row in rows):
        raise ConfigError(f"{path} is there and isn't ours: move it away, or stage elsewhere")
    return dict(rows)


def _field(text: str) -> str:
    return "".join(_ESCAPES.get(mark, mark) for mark in text)


def _meant(field: str) -> str:
    return re.sub(r"\\.", lambda found: _MEANINGS.get(found[0], found[0]), field)


def check_names(names: Mapping[str, str]) -> None:
    """Check that files can lie in one tree.

    Parameters
    ----------
    names
        URL to its path in the tree.

    Raises
    ------
    ConfigError
        If two have the same path, or one would lie below another.
    SourceError
        If a store names a file by a path that leads out of the tree.
    """
    seen: dict[str, str] = {}
    for url, name in names.items():
        if any(part in ("", ".", "..") for part in name.split("/")):
            raise SourceError(f"{url} has no place in a tree: its path below it would be {name!r}; leave out --tree")
        other = seen.setdefault(name, url)
        if other != url:
            raise ConfigError(f"{url} and {other} would both be {name} in the tree: stage them to two directories")
    for name, url in seen.items():
        above = name.rpartition("/")[0]
        while above:
            if above in seen:
                raise ConfigError(f"{url} would lie below {seen[above]} in the tree: stage them to two directories")
            above = above.rpartition("/")[0]


def link_tree(directory: Path, names: Mapping[str, str], places: Mapping[str, Path]) -> Path:
    """Link staged files under their own paths; links to files that have gone go.

    Parameters
    ----------
    directory
        Where files are staged to.
    names
        URL to its path in the tree.
    places
        URL to where it lies, for those that were staged.

    Raises
    ------
    ConfigError
        If something else is at such a path.
    """
    tree = directory / TREE
    unlink_gone(directory)
    for url, place in places.items():
        link = os.path.join(tree, names[url])
        os.makedirs(os.path.dirname(link), exist_ok=True)
        target = os.path.relpath(place, os.path.dirname(link))
        try:
            os.symlink(target, link)
        except FileExistsError:
            if not _is_ours(directory, link):
                raise ConfigError(f"{link} is there and isn't ours: move it away, or stage elsewhere") from None
            # By a rename: programs that look meanwhile find the old target or the new one, never none.
            with replacing(Path(link)) as temporary:
                temporary.symlink_to(target)
    return tree


def unlink_gone(directory: Path) -> None:
    """Remove the tree's links to files that have gone, and directories that are empty then."""
    for folder, _, files in os.walk(directory / TREE, topdown=False):
        gone = [link for name in files if not os.path.exists(link := os.path.join(folder, name))]
        for link in gone:
            if _is_ours(directory, link):
                os.unlink(link)
        if gone:
            with suppress(OSError):  # something else is in it
                os.rmdir(folder)


def _is_ours(directory: Path, link: str) -> bool:
    """Whether something is a link to a staged file."""
    if not os.path.islink(link):
        return False
    target = os.path.normpath(os.path.join(os.path.dirname(link), os.readlink(link)))
    return target.startswith(os.path.join(directory, "files", ""))
