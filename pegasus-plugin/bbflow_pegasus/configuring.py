"""What has to change in a user's files for a burst buffer, what it was before, and how it becomes that again."""

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bbflow.errors import ConfigError, nearest
from bbflow.host.atomic import write_whole
from bbflow_pegasus.catalogs import SITES, TRANSFORMATIONS, Catalog, plain, put_property, read_property
from bbflow_pegasus.settings import PROGRAM, BurstBufferSite

RECORD = ".bbflow-pegasus.json"
"""Beside the properties: what was there before."""
TRANSFER = ("pegasus", "transfer")
_KINDS = {SITES: "pegasus.catalog.site.file", TRANSFORMATIONS: "pegasus.catalog.transformation.file"}
_PROPERTIES = "properties"


@dataclass(frozen=True, slots=True)
class Files:
    """The files that `config` changes."""

    properties: Path
    """With the properties."""
    sites: Path
    """The site catalog."""
    transformations: Path
    """The transformation catalog."""

    @classmethod
    def beside(cls, properties: Path) -> "Files":
        """Find the catalogs as the properties name them, else by Pegasus's own names beside them."""
        text = _read(properties) or ""
        found = {}
        for kind, key in _KINDS.items():
            name = read_property(text, key)
            found[kind] = properties.parent / (name or f"{kind}.yml")
        return cls(properties, found[SITES], found[TRANSFORMATIONS])

    @property
    def record(self) -> Path:
        """Where it stands what was there before."""
        return self.properties.parent / RECORD

    def by_kind(self) -> dict[str, Path]:
        """Return all of them."""
        return {SITES: self.sites, TRANSFORMATIONS: self.transformations, _PROPERTIES: self.properties}


@dataclass(frozen=True, slots=True)
class Change:
    """A file that is to become another."""

    path: Path
    """Which one."""
    before: str | None
    """Its text; None if it isn't there."""
    after: str | None
    """Its text to be; None if it is to go."""

    def shown(self) -> str:
        """Show what changes, as a unified diff."""
        old, new = (self.before or "").splitlines(keepends=True), (self.after or "").splitlines(keepends=True)
        return "".join(difflib.unified_diff(old, new, str(self.path), str(self.path), n=2))

    def make(self) -> None:
        """Write it, whole or not at all."""
        if self.after is None:
            self.path.unlink(missing_ok=True)
            return
        write_whole(self.path, self.after)


def configure(buffer: BurstBufferSite, files: Files) -> list[Change]:
    """Return what has to change, and the record of what was before; nothing if all is as it should be.

    Raises
    ------
    ConfigError
        If a file can't be read, or there is no such compute site.
    """
    texts = {kind: _read(path) for kind, path in files.by_kind().items()}
    record = _Record.read(files.record)
    wanted: dict[str, str | None] = {
        SITES: _with_sites(buffer, files.sites, texts[SITES], record),
        TRANSFORMATIONS: _with_transformations(buffer, files.transformations, texts[TRANSFORMATIONS], record),
        _PROPERTIES: _with_properties(buffer, texts[_PROPERTIES] or "", record),
    }
    changes = [Change(path, texts[kind], wanted[kind]) for kind, path in files.by_kind().items()]
    changes = [change for change in changes if change.before != change.after]
    for change in changes:
        record.note(change)
    # The record first: where a later one can't be written, or its writer is killed, all that was can be had again.
    return [Change(files.record, _read(files.record), record.text), *changes] if changes else []


def undo(files: Files) -> list[Change]:
    """Return what has to change so that all is as before; what others changed since stays as they left it.

    Raises
    ------
    ConfigError
        If nothing was configured here.
    """
    if not files.record.exists():
        raise ConfigError(f"{files.record} isn't there: nothing was configured beside {files.properties}")
    record = _Record.read(files.record)
    changes = []
    for kind, path in files.by_kind().items():
        text = _read(path)
        if text is not None and str(path) in record.files:
            before, after = record.files[str(path)]
            changes.append(Change(path, text, before if text == after else _without(kind, path, text, record)))
    return [*[each for each in changes if each.before != each.after], Change(files.record, _read(files.record), None)]


class _Record:
    """What was there before the first change."""

    def __init__(self, files: dict[str, Any], entries: dict[str, Any]) -> None:
        self.files, self.entries = files, entries

    @classmethod
    def read(cls, path: Path) -> "_Record":
        text = _read(path)
        if text is None:
            return cls({}, {})
        try:
            content = json.loads(text)
            return cls(content["files"], content["entries"])
        except (ValueError, KeyError, TypeError):
            raise ConfigError(f"{path} can't be read: remove it, and what was configured by hand") from None

    @property
    def text(self) -> str:
        return json.dumps({"files": self.files, "entries": self.entries}, indent=1) + "\n"

    def keep(self, kind: str, key: str, entry: object) -> None:
        """Note how an entry was, unless that was noted before."""
        self.entries.setdefault(kind, {}).setdefault(key, plain(entry))

    def note(self, change: Change) -> None:
        before = self.files.get(str(change.path), [change.before])[0]
        self.files[str(change.path)] = [before, change.after]


def _with_sites(buffer: BurstBufferSite, path: Path, text: str | None, record: _Record) -> str:
    catalog = Catalog(path, SITES, text)
    entry = buffer.site_entry()
    there = catalog.get((buffer.site,))
    record.keep(SITES, buffer.site, there)
    catalog.put((buffer.site,), entry if there is None else _merged_site(there, entry))
    for name in buffer.compute if buffer.compute_profiles() else ():
        site = catalog.get((name,))
        if site is None:
            raise ConfigError(f"{path} has no site {name!r}: {nearest(name, [e['name'] for e in catalog.entries])}")
        record.keep(SITES, name, site)
        catalog.put((name,), _merged(site, {"profiles": {"env": buffer.compute_profiles()}}))
    return catalog.text


def _merged_site(there: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return a site with our directory in the place of its own scratch directory, and all else that it has."""
    others = [each for each in plain(there).get("directories", []) if each.get("type") != "sharedScratch"]
    return _merged(there, {**entry, "directories": [*entry["directories"], *others]})


def _merged(there: Any, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return a map with the wanted values, and all others that it has."""
    result: dict[str, Any] = dict(plain(there))
    for key, value in wanted.items():
        both = isinstance(value, Mapping) and isinstance(result.get(key), Mapping)
        result[key] = _merged(result[key], value) if both else value
    return result


def _with_transformations(buffer: BurstBufferSite, path: Path, text: str | None, record: _Record) -> str:
    catalog = Catalog(path, TRANSFORMATIONS, text)
    for wanted in buffer.transformation_entries():
        key = (wanted["namespace"], wanted["name"])
        there = catalog.get(key)
        record.keep(TRANSFORMATIONS, "::".join(key), there)
        old = {each.get("name"): each for each in plain(there)["sites"]} if there else {}
        sites = {each["name"]: _merged(_without_ours(old.get(each["name"], {})), each) for each in wanted["sites"]}
        others = [
            each for name, each in old.items() if name not in sites and Path(str(each.get("pfn"))).name != PROGRAM
        ]
        catalog.put(key, {**wanted, **plain(there or {}), "sites": [*others, *sites.values()]})
    return catalog.text


def _without_ours(site: Mapping[str, Any]) -> dict[str, Any]:
    """Return a site of the transfer without variables of an earlier configuration."""
    environment = site.get("profiles", {}).get("env")
    if environment is None:
        return dict(site)
    kept = {key: value for key, value in environment.items() if not key.startswith("BBFLOW_")}
    return {**site, "profiles": {**site["profiles"], "env": kept}}


def _with_properties(buffer: BurstBufferSite, text: str, record: _Record) -> str:
    for key, value in buffer.properties().items():
        record.keep(_PROPERTIES, key, read_property(text, key))
        text = put_property(text, key, value)
    return text


def _without(kind: str, path: Path, text: str, record: _Record) -> str:
    """Return a file that was changed since with our entries as they were before."""
    entries = record.entries.get(kind, {})
    if kind == _PROPERTIES:
        for key, value in entries.items():
            text = put_property(text, key, value)
        return text
    catalog = Catalog(path, kind, text)
    for key, entry in entries.items():
        catalog.put(tuple(key.split("::")), entry)
    return catalog.text


def _read(path: Path) -> str | None:
    try:
        return path.read_text()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"can't read {path}: {error}") from None
