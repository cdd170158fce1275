"""Catalogs and properties as files: entries are put in, comments and layout stay. Only this module imports ruamel."""

import copy
import io
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bbflow.errors import ConfigError, MissingToolError

SITES, TRANSFORMATIONS = "sites", "transformations"
_LAYOUTS = ((2, 0), (4, 2), (2, 2))
"""How lists are indented, and their dashes: the first that gives back a file as it is."""


class Catalog:
    """A site or transformation catalog.

    Parameters
    ----------
    path
        For messages.
    kind
        ``sites`` or ``transformations``.
    text
        Of the file; None makes a new one.

    Raises
    ------
    ConfigError
        If it isn't a catalog of this kind.
    MissingToolError
        If ruamel.yaml isn't installed.
    """

    def __init__(self, path: Path, kind: str, text: str | None) -> None:
        self._kind = kind
        text = f'pegasus: "5.0"\n{kind}: []\n' if text is None else text
        self._yaml = _layout_of(path, text)
        self._content = _load(self._yaml, path, text)
        entries = self._content.get(kind, []) if isinstance(self._content, dict) else None
        if not isinstance(entries, list):
            raise ConfigError(f"{path} isn't a catalog of Pegasus 5: it has no list {kind!r}")
        if other := [entry for entry in entries if not isinstance(entry, dict)]:
            raise ConfigError(f"{path} isn't a catalog of Pegasus 5: {other[0]!r} among its {kind} is no map")

    @property
    def text(self) -> str:
        """What the file should have."""
        return _dump(self._yaml, self._content)

    @property
    def entries(self) -> list[Any]:
        """Its sites or transformations."""
        entries: list[Any] = self._content.setdefault(self._kind, [])
        return entries

    def get(self, key: tuple[str, ...]) -> dict[str, Any] | None:
        """Return an entry; None if there is none."""
        return next((entry for entry in self.entries if self.key(entry) == key), None)

    def put(self, key: tuple[str, ...], entry: Mapping[str, Any] | None) -> None:
        """Set an entry: what is equal stays as it is written. None removes it."""
        there = self.get(key)
        if there is None:
            if entry is not None:
                self._append(entry)
        elif entry is None:
            self.entries.remove(there)
        else:
            _become(there, entry)

    def key(self, entry: Mapping[str, Any]) -> tuple[str, ...]:
        """Return what an entry is known by."""
        if self._kind == SITES:
            return (str(entry.get("name", "")),)
        return (str(entry.get("namespace", "")), str(entry.get("name", "")))

    def _append(self, entry: Mapping[str, Any]) -> None:
        if not self.entries:  # an empty list is written as [], and would stay so
            self._content[self._kind] = [dict(entry)]
        else:
            self.entries.append(dict(entry))


def _become(there: Any, wanted: Any) -> None:
    """Change a map of a file into another, leaving alone what is the same."""
    for key in [key for key in there if key not in wanted]:
        del there[key]
    for key, value in wanted.items():
        if isinstance(value, Mapping) and isinstance(there.get(key), dict):
            _become(there[key], value)
        elif plain(there.get(key)) != plain(value):
            there[key] = copy.deepcopy(value)


def plain(content: Any) -> Any:
    """Return maps and lists of a file without what is known of their layout."""
    if isinstance(content, Mapping):
        return {str(key): plain(value) for key, value in content.items()}
    if isinstance(content, Sequence) and not isinstance(content, str):
        return [plain(value) for value in content]
    return content if isinstance(content, bool | int | float) or content is None else str(content)


def _layout_of(path: Path, text: str) -> Any:
    """Return the reader and writer that changes least of a file."""
    writers = [_writer(*layout) for layout in _LAYOUTS]
    return next((each for each in writers if _dump(each, _load(each, path, text)) == text), writers[0])


def _writer(sequence: int, offset: int) -> Any:
    try:
        from ruamel.yaml import YAML
    except ImportError:
        raise MissingToolError("ruamel.yaml isn't installed: pip install 'bbflow[pegasus]'") from None
    yaml = YAML()
    yaml.preserve_quotes = True
    # By default ruamel.yaml breaks lines at 80 characters: lines that the user has left long would change.
    yaml.width = 4096
    yaml.indent(mapping=2, sequence=sequence, offset=offset)
    return yaml


def _load(yaml: Any, path: Path, text: str) -> Any:
    from ruamel.yaml.error import YAMLError

    try:
        return yaml.load(text)
    except YAMLError as error:
        raise ConfigError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from None


def _dump(yaml: Any, content: Any) -> str:
    stream = io.StringIO()
    yaml.dump(content, stream)
    return stream.getvalue()


def read_property(text: str, key: str) -> str | None:
    """Return a property's value, of the last line that sets it; None if none does."""
    values = [match[2].strip() for match in map(_line_of(key), text.splitlines()) if match]
    return values[-1] if values else None


def put_property(text: str, key: str, value: str | None) -> str:
    """Set a property in its line, or in a new one at the end; None removes it."""
    lines, match_line, out, found = text.splitlines(keepends=True), _line_of(key), [], False
    for line in lines:
        match = match_line(line.rstrip("\n"))
        if match is None:
            out.append(line)
        elif value is not None and not found:
            out.append(line if match[2].strip() == value else f"{match[1]}{value}\n")
            found = True
    if value is not None and not found:
        if out and not out[-1].endswith("\n"):
            out[-1] += "\n"
        out.append(f"{key} = {value}\n")
    return "".join(out)


def _line_of(key: str) -> Callable[[str], "re.Match[str] | None"]:
    return re.compile(rf"^(\s*{re.escape(key)}\s*[=:]\s*)(.*)$").match
