"""What is true of files at one and the same moment, while others make, rename and remove them."""

import os
from contextlib import ExitStack, suppress
from pathlib import Path


def files_below(directory):
    """Return the files below a directory; what goes meanwhile may be among them or not."""
    return [Path(folder, name) for folder, _, names in os.walk(directory) for name in names]


def contents_of(paths):
    """Read files; one that went, or got its final name, since it was listed is left out."""
    found = []
    for path in paths:
        with suppress(FileNotFoundError):
            found.append(path.read_bytes())
    return found


def bytes_at_once(paths):
    """Add up the sizes of those files that were there all at the same moment: when the last one was opened.

    What has lost its name by the time that it is looked at may have made room for another of them, so it doesn't count.
    """
    with ExitStack() as stack:
        opened = []
        for path in paths:
            with suppress(FileNotFoundError):  # it went, or has another name now
                opened.append(stack.enter_context(path.open("rb")).fileno())
        found = {each.st_ino: each.st_size for each in map(os.fstat, opened) if each.st_nlink}
    return sum(found.values())
