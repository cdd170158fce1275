"""How a master keeps files."""

from dataclasses import dataclass

from bbflow.errors import ConfigError
from bbflow.files.names import split_path


@dataclass(frozen=True, slots=True)
class Options:
    """How a master keeps files.

    Raises
    ------
    ConfigError
        If no master could keep them so.
    """

    storage: str = ""
    """URL of the shared storage, without a slash at its end; empty for none."""
    write_back: str = "background"
    """When files are written back: `background`, `close`, `fsync` or `end`."""
    write_back_after_s: float = 5.0
    """How long a file rests before, as in Linux's page cache; what goes or is renamed meanwhile costs the storage
    nothing, and programs that make many files aren't held up by their transfers."""
    scratch: tuple[str, ...] = ()
    """Patterns (fnmatch, of paths from the root) of files that are never written back."""
    piece_bytes: int = 64 << 20
    """How long the pieces of new files are."""
    replicas: int = 1
    """How many nodes have each piece."""
    near: bool = False
    """Whether new files go to nodes of the writer's own host while these have room."""
    wait_s: float = 0.0
    """How long opening a file that is being written, or expected, waits by default."""
    room_timeout_s: float = 600.0
    """How long a writer waits for room."""
    lease_s: float = 10.0
    """How long a client that is silent may keep what it was told, and what it has open."""
    node_loss_s: float = 60.0
    """How long a node may be away before its bytes count as lost."""
    refresh_s: float = 0.0
    """After this long a directory is looked at in the shared storage again; 0 for only when asked."""
    read_only: bool = False
    """Whether clients may change nothing."""
    files_ahead: int = 16
    """How many files of a directory come, at most, before the program asks for them that opens one after another."""
    uploads: int = 4
    """How many files are written back at once."""
    subtree: str = "/"
    """What this master serves."""
    number: int = 0
    """Its number."""

    def __post_init__(self) -> None:
        if self.replicas < 1 or self.piece_bytes < 1:
            raise ConfigError("each file needs 1 replica or more, and pieces of 1 byte or more")
        if self.subtree != "/" + "/".join(split_path(self.subtree)):
            raise ConfigError(f"{self.subtree!r} isn't a subtree: write it like /a or /a/b")
