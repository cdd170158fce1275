"""What a server says of itself, on standard error."""

import sys
from contextlib import suppress

from bbflow.errors import printable


def log(text: str) -> None:
    """Log one line: peers' texts in it must not look like further ones, or speak to a terminal.

    Where it can't be written, because the file system is full or a pipe's reader gone, continue.
    """
    with suppress(OSError):
        print(printable(text), file=sys.stderr, flush=True)
