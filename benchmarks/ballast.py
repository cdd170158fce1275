"""Memory and page cache that were in use until just now: a virtual machine may get other pages from its host first.

That takes longer than writing to them, now and then: up to ten times as long.
"""

import subprocess
from pathlib import Path


def write_zeros(size: int, path: Path) -> None:
    """Write a file with dd, in blocks of 64 MiB."""
    words = ["dd", "if=/dev/zero", f"of={path}", "bs=64M", f"count={size}", "iflag=count_bytes"]
    subprocess.run(words, check=True, stderr=subprocess.DEVNULL)


def make_ballast(size: int, folder: Path) -> Path:
    """Make a file of this many bytes, which is to be removed just before something else needs them."""
    path = folder / "ballast"
    write_zeros(size, path)
    return path
