"""How much a client has read and written, by the counters that its kernel keeps: parsers of their texts."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

SECTOR_BYTES = 512
"""The unit of /proc/diskstats, whatever the disk's own sectors are (Linux, admin-guide/iostats)."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes since the counters began."""

    read_bytes: int = 0
    """From the server or disk."""
    written_bytes: int = 0
    """To it."""

    def __add__(self, other: "Traffic") -> "Traffic":
        return Traffic(self.read_bytes + other.read_bytes, self.written_bytes + other.written_bytes)


def parse_mountstats(text: str) -> Mapping[str, Traffic]:
    """Read /proc/self/mountstats: NFS mount point to its traffic with the server.

    The line ``bytes:`` has eight numbers; the fifth and sixth are what went over the network (Linux,
    include/linux/nfs_iostat.h).
    """
    found: dict[str, Traffic] = {}
    mount = None
    for line in text.splitlines():
        head = re.match(r"device .* mounted on (\S+) with fstype (nfs\d*)\b", line)
        if line.startswith("device "):
            mount = _unescape(head[1]) if head else None
        words = line.split()
        if mount is not None and len(words) >= 7 and words[0] == "bytes:":
            found[mount] = Traffic(int(words[5]), int(words[6]))
    return found


def parse_llite_stats(text: str) -> Traffic:
    """Read the ``stats`` of a Lustre client's mount: ``read_bytes N samples [bytes] MIN MAX SUM``."""
    sums = {match[1]: int(match[2]) for match in re.finditer(_LLITE, text, re.MULTILINE)}
    return Traffic(sums.get("read_bytes", 0), sums.get("write_bytes", 0))


_LLITE = r"^(read_bytes|write_bytes)\s+\d+ samples \[bytes\] \d+ \d+ (\d+)"


def parse_job_stats(text: str) -> Mapping[str, Traffic]:
    """Read the ``job_stats`` of a Lustre target: job to its traffic."""
    found = {}
    for entry in re.split(r"^- job_id:", text, flags=re.MULTILINE)[1:]:
        job = entry.split("\n", 1)[0].strip().strip('"')
        sums = {name: int(total) for name, total in re.findall(r"(read_bytes|write_bytes):.*?sum:\s*(\d+)", entry)}
        found[job] = Traffic(sums.get("read_bytes", 0), sums.get("write_bytes", 0))
    return found


def parse_diskstats(text: str) -> Mapping[str, Traffic]:
    """Read /proc/diskstats: device to its traffic."""
    rows = (line.split() for line in text.splitlines())
    return {row[2]: Traffic(int(row[5]) * SECTOR_BYTES, int(row[9]) * SECTOR_BYTES) for row in rows if len(row) >= 11}


def _unescape(path: str) -> str:
    return re.sub(r"\\(\d{3})", lambda match: chr(int(match[1], 8)), path)
