"""Memory and page cache that were in use until just now: a virtual machine may get other pages from its host first.

That takes longer than writing to them, now and then: up to ten times as long.
"""

import subprocess
from pathlib import Path


def write_zeros(size: int, path: Path) -> None:
    """Write a file with dd, in blocks of 64 MiB; once it is removed, its pages are there for others."""
    words = ["dd", "if=/dev/zero", f"of={path}", "bs=64M", f"count={size}", "iflag=count_bytes"]
    subprocess.run(words, check=True, stderr=subprocess.DEVNULL)


def free(size: int, folder: Path) -> None:
    """Let so many bytes of a file system have been in use until now."""
    path = folder / "ballast"
    write_zeros(size, path)
    path.unlink()
