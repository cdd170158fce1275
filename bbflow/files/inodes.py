"""What a master knows of one file, directory or symbolic link."""

import errno
from dataclasses import dataclass

import msgspec
from msgspec import Struct
from msgspec.structs import astuple, replace

from bbflow.files.wire import Attr

PAGE_BYTES = 4096
"""A piece takes whole pages of a node's memory."""
MOST_FILE_BYTES = 5 << 40
"""A file is never larger, as an object of S3 isn't (Amazon S3 User Guide, "Uploading objects")."""
FILE, DIRECTORY, LINK = "f", "d", "l"

Piece = tuple[int, int]
"""The version that wrote a piece, and how many of its bytes count."""
Pieces = tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Striping:
    """How a file is cut into pieces, and where these lie."""

    ring: tuple[str, ...]
    """The nodes that they go round on; empty while nothing of it is in memory."""
    replicas: int
    """How many nodes have each piece."""
    piece_bytes: int
    """How long a piece is."""

    def holders(self, index: int) -> tuple[str, ...]:
        """Return the nodes that have a piece, the one to write to first."""
        return holders(self.ring, index, self.replicas)

    def places(self, pieces: Pieces) -> dict[str, dict[str, int]]:
        """Return, for each node, the piece files that it has of a version, with their bytes of memory."""
        return places_of(self.ring, self.replicas, pieces)


class Inode(Struct, frozen=True, array_like=True, gc=False):
    """One entry of the namespace, or a file that is open without a name: a value, replaced as a whole by a record.

    Nothing in it can refer to it, so the garbage collector needn't look at millions of them. Its fields are stored in
    this order, but for the last one: a new one goes before that, and `database.VERSION` up.
    """

    ino: int
    """Its number."""
    parent: int
    """The directory that it is in; its own number for the root, 0 once it has no name."""
    name: str
    """Its name there."""
    kind: str
    """`FILE`, `DIRECTORY` or `LINK`."""
    mode: int
    """Permission bits, 12 of them."""
    uid: int
    """Its owner."""
    gid: int
    """Its group."""
    atime_ns: int
    """Last access as someone set it; reading doesn't change it."""
    mtime_ns: int
    """Last change of its bytes, or of a directory's names."""
    ctime_ns: int
    """Last change of anything."""
    size: int = 0
    """Bytes of the committed version."""
    version: int = 0
    """The committed version; 0 before the first commit."""
    pieces: Pieces = ()
    """Its pieces."""
    piece_bytes: int = 0
    """How long a piece is."""
    ring: tuple[str, ...] = ()
    """The nodes that its pieces go round on; empty while nothing of it is in memory."""
    replicas: int = 1
    """How many nodes have each piece."""
    target: str = ""
    """Where a link points to."""
    stored_path: str = ""
    """Name of its object in the shared storage, below the prefix; empty if there is none."""
    stored_version: int = 0
    """Which version that object holds."""
    facts: tuple[int, str] = (0, "")
    """Size and version (ETag or time) of that object, as the storage tells."""
    dirty_ns: int = 0
    """Since when it waits to be written back; 0 if it doesn't."""
    scratch: bool = False
    """Whether it is never written back."""
    expected: bool = False
    """Whether nothing of it was ever committed: its name is there, and readers may wait."""
    lost: bool = False
    """Whether bytes of the committed version are gone for good."""
    master: int = 0
    """Which other master serves what is below this directory; 0 for none."""
    is_cut: bool = False
    """Whether its last piece's file holds more than counts, which readers of older versions may need."""
    filling: bool = False
    """Whether its bytes are on their way from the shared storage; as it is stored, they are not here."""

    @property
    def state(self) -> str:
        """Where its bytes are, in one word (FORMAT.md, `attr`)."""
        if self.kind != FILE:
            return ""
        if self.lost:
            return "lost"
        if self.is_cold:
            return "cold"
        if self.scratch:
            return "scratch"
        return "clean" if self.stored_version == self.version and self.version else "dirty"

    @property
    def is_cold(self) -> bool:
        """Whether its bytes are in the shared storage only."""
        return self.kind == FILE and self.version != 0 and not self.ring and self.stored_version == self.version

    @property
    def striping(self) -> Striping:
        """Where the pieces of the committed version lie."""
        return Striping(self.ring, self.replicas, self.piece_bytes)

    @property
    def keys(self) -> set[str]:
        """The names of its piece files."""
        return set(keys_of(self.pieces))

    @property
    def places(self) -> dict[str, dict[str, int]]:
        """For each node, the piece files that it is to have, with their bytes of memory."""
        return places_of(self.ring, self.replicas, self.pieces)

    def attr(self, subdirectories: int = 0) -> Attr:
        """Return what clients are told; a directory's number of links (as `stat` tells) follows from those in it."""
        return Attr(
            ino=self.ino,
            kind=self.kind,
            mode=self.mode,
            uid=self.uid,
            gid=self.gid,
            size=self.size,
            atime_ns=self.atime_ns,
            mtime_ns=self.mtime_ns,
            ctime_ns=self.ctime_ns,
            nlink=2 + subdirectories if self.kind == DIRECTORY else int(bool(self.parent)),
            version=self.version,
            state=self.state,
            master=self.master,
        )

    def holders(self, index: int) -> tuple[str, ...]:
        """Return the nodes that have a piece, the one to write to first."""
        return holders(self.ring, index, self.replicas)


def pack(inode: Inode) -> bytes:
    """Return what is stored of an inode beside its number, parent and name."""
    # What is on its way is nobody's where a master begins: to the next one the file is in the shared storage only.
    stored = replace(inode, pieces=(), ring=()) if inode.filling else inode
    return msgspec.msgpack.encode(astuple(stored)[3:-1])


def unpack(ino: int, parent: int, name: str, record: bytes) -> Inode:
    """Return an inode as it was stored.

    Raises
    ------
    ValueError
        If that is no inode.
    """
    values = [ino, parent, name, *msgspec.msgpack.decode(record)]
    if len(values) != len(Inode.__struct_fields__) - 1:
        raise ValueError(f"an inode with {len(values)} values")
    return msgspec.convert(values, Inode)


def holders(ring: tuple[str, ...], index: int, replicas: int) -> tuple[str, ...]:
    """Return the nodes that have piece `index` of a file on a ring."""
    count = min(replicas, len(ring))
    return tuple(ring[(index + number) % len(ring)] for number in range(count))


def key_of(version: int, index: int) -> str:
    """Return the name of a piece's file."""
    return f"{version:x}.{index:x}"


def pages(size: int) -> int:
    """Return the bytes of memory that this many bytes take."""
    return -(-size // PAGE_BYTES) * PAGE_BYTES


def keys_of(pieces: Pieces) -> list[str]:
    """Return the names of all piece files of a version."""
    return [key_of(version, index) for index, (version, _) in enumerate(pieces) if version]


def places_of(inode_ring: tuple[str, ...], replicas: int, pieces: Pieces) -> dict[str, dict[str, int]]:
    """Return, for each node, the piece files that it has of a version, with their bytes of memory."""
    places: dict[str, dict[str, int]] = {}
    for index, (version, size) in enumerate(pieces):
        if version:
            for node in holders(inode_ring, index, replicas):
                places.setdefault(node, {})[key_of(version, index)] = pages(size)
    return places


def check_size(size: int) -> None:
    """Refuse a file that would be too large.

    Raises
    ------
    OSError
        EFBIG.
    """
    if size > MOST_FILE_BYTES:
        raise OSError(errno.EFBIG, f"{size} bytes: a file has at most {MOST_FILE_BYTES}")
