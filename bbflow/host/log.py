"""What servers and commands say: one line each."""

import sys
from contextlib import suppress
from typing import TextIO

from bbflow.errors import printable


def log(text: str) -> None:
    """Log one line: peers' texts in it must not look like further ones, or speak to a terminal.

    Where it can't be written, because the file system is full or a pipe's reader gone, continue.
    """
    with suppress(OSError):
        print(printable(text), file=sys.stderr, flush=True)


def tell(text: str, out: TextIO | None = None, program: str = "bbflow") -> None:
    """Print one line for a command's user: names in it may be anybody's, and have ends of lines in them.

    Parameters
    ----------
    text
        What is to be said.
    out
        Where; None for standard error.
    program
        Whose name stands before it.
    """
    print(printable(f"{program}: {text}"), file=out or sys.stderr, flush=True)
