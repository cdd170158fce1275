"""Lists of transfers and removals, as Pegasus's own transfer tool reads them."""

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

Entry = dict[str, Any]
_LISTS = re.compile(r"pegasus-transfer\b[^\n]*<<\s*'(\w+)'\n(.*?)\n\1\n", re.DOTALL)


def read_entries(path: Path) -> list[Entry]:
    """Read what a transfer or cleanup job is given on its standard input."""
    entries: list[Entry] = json.loads(path.read_text())
    return entries


def entries_within(script: str) -> list[Entry]:
    """Find all transfers in the script by which PegasusLite runs a job."""
    return [entry for _, text in _LISTS.findall(script) for entry in json.loads(text)]


def write_entries(path: Path, entries: Sequence[Entry]) -> None:
    """Write entries with numbers of their own."""
    path.write_text(json.dumps([{**entry, "id": number} for number, entry in enumerate(entries, 1)], indent=1) + "\n")


def target_site(entry: Entry) -> str:
    """Return the site that a transfer goes to, or where something is removed."""
    return str(entry["target"]["site_label"] if "target" in entry else entry["dest_urls"][0]["site_label"])


def source_site(entry: Entry) -> str:
    """Return the site that a transfer comes from."""
    return str(entry["src_urls"][0]["site_label"])


def removed_url(entry: Entry) -> str | None:
    """Return the file that an entry removes; None if it removes something else."""
    target = entry.get("target", {})
    is_file = entry.get("type") == "remove" and str(target.get("recursive", "False")).lower() != "true"
    return str(target["url"]) if is_file else None


def names(entries: Iterable[Entry]) -> tuple[str, ...]:
    """Return the logical names of the files that are moved, each once."""
    return tuple(dict.fromkeys(str(entry["lfn"]) for entry in entries if "lfn" in entry))
