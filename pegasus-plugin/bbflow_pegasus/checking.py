"""Whether catalogs and properties written by hand would stage through a burst buffer."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bbflow.errors import nearest
from bbflow_pegasus.catalogs import SITES, TRANSFORMATIONS, Catalog, plain, read_property
from bbflow_pegasus.configuring import TRANSFER, Files
from bbflow_pegasus.planning.facts import PREFIX

MODE = "pegasus.data.configuration"


def faults(files: Files) -> Iterator[str]:
    """Yield what is missing or wrong, one line each; nothing if all is as it should be.

    Raises
    ------
    ConfigError
        If a catalog can't be read.
    """
    text = _read(files.properties) or ""
    for name in ("capacity", "slots"):
        if not read_property(text, PREFIX + name):
            yield f"{files.properties} has no {PREFIX}{name}: without it there are no waves"
    if (mode := read_property(text, MODE)) != "nonsharedfs":
        yield f"{files.properties}: {MODE} is {mode or 'not set'}; with nonsharedfs files go by the staging site"
    yield from site_faults(files)
    programs = Catalog(files.transformations, TRANSFORMATIONS, _read(files.transformations))
    if programs.get(TRANSFER) is None:
        yield f"{files.transformations} has no pegasus::transfer: transfers would not give way to anything"


def site_faults(files: Files) -> Iterator[str]:
    """Yield what is missing or wrong of the burst buffer's site, one line each: with such nothing can be planned.

    Raises
    ------
    ConfigError
        If the site catalog can't be read.
    """
    name = read_property(_read(files.properties) or "", PREFIX + "site") or "bb"
    catalog = Catalog(files.sites, SITES, _read(files.sites))
    site: dict[str, Any] | None = plain(catalog.get((name,)))
    if site is None:
        yield f"{files.sites} has no site {name!r}: {nearest(name, [str(e.get('name')) for e in catalog.entries])}"
        return
    scratch = next((each for each in site.get("directories", []) if each.get("type") == "sharedScratch"), None)
    servers = scratch.get("fileServers", []) if scratch else []
    if not servers:
        yield f"{files.sites}: site {name!r} has no sharedScratch directory with a file server: nothing can be staged"
    here = any(str(server.get("url", "")).startswith("file:") for server in servers)
    if here and str(site.get("profiles", {}).get("pegasus", {}).get("auxillary.local")).lower() != "true":
        yield (
            f"{files.sites}: site {name!r} has no profile pegasus: auxillary.local: 'true' (Pegasus spells it so), "
            "so transfers to it would not run at the submit host"
        )


def _read(path: Path) -> str | None:
    return path.read_text() if path.exists() else None
