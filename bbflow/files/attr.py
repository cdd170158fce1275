"""What clients are told of an inode, as a directory's entry or by itself (FORMAT.md, 'Attributes')."""

from msgspec import Struct

from bbflow.files.wire import Whole


class Attr(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is told of an inode."""

    ino: Whole
    kind: str
    """`f`, `d` or `l`."""
    mode: Whole
    uid: Whole
    gid: Whole
    size: Whole
    atime_ns: Whole
    mtime_ns: Whole
    ctime_ns: Whole
    nlink: Whole
    version: Whole
    state: str
    """Where a file's bytes are; empty for what is no file."""
    master: Whole = 0
    """Number of the master that it goes on at; 0 for this one."""
