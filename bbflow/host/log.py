"""What a server says of itself, on standard error."""

import sys
from contextlib import suppress


def log(text: str) -> None:
    """Say something; where nobody hears it, because the file system is full or a pipe's reader gone, go on."""
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)
