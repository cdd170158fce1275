"""What lies on a burst buffer, who uses it, and what may go."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from bbflow.staging.buffer_room import FileState, first_enough
from bbflow.staging.files import File


@dataclass(slots=True)
class Entry:
    """A file that has room on the BB."""

    file: File
    """With its size, which counts."""
    state: FileState
    """How far it is."""
    pins: set[str] = field(default_factory=set)
    """Admitted tasks that use it and are not final."""
    made: bool = False
    """Whether a task made it here: it has no other copy, and goes only when released."""
    copied: bool = False
    """Whether it is a copy of its source."""

    @property
    def size_bytes(self) -> int:
        """Room it takes."""
        return self.file.size_bytes or 0

    @property
    def may_go(self) -> bool:
        """Whether removing it loses nothing and disturbs no one."""
        return not self.pins and not self.made and (self.state is FileState.HERE or self.is_doubtful)

    @property
    def is_doubtful(self) -> bool:
        """Whether it is to be checked before use."""
        return self.state in (FileState.FOUND, FileState.UNCHECKED)


class Residency:
    """Room of a BB, its files and their known users.

    Parameters
    ----------
    capacity_bytes
        Room for files.
    """

    def __init__(self, capacity_bytes: int) -> None:
        self.capacity_bytes = capacity_bytes
        self.used_bytes = 0
        self._entries: dict[str, Entry] = {}
        self._users: dict[str, dict[str, int]] = {}
        self._expected: dict[str, None] = {}
        self._idle: dict[str, None] = {}
        self._idle_bytes = 0
        self._coming = 0
        self.changes = 0
        """Grows whenever room, or what may go for it, changes."""

    def __contains__(self, url: str) -> bool:
        return url in self._entries

    def __getitem__(self, url: str) -> Entry:
        return self._entries[url]

    def get(self, url: str) -> Entry | None:
        """Return a file's entry, if it has room here."""
        return self._entries.get(url)

    @property
    def urls(self) -> tuple[str, ...]:
        """All files that have room here."""
        return tuple(self._entries)

    @property
    def free_bytes(self) -> int:
        """Room left; below zero if tasks made more than they said, or the room has shrunk."""
        return self.capacity_bytes - self.used_bytes

    @property
    def idle(self) -> tuple[str, ...]:
        """Files that may go and that no task wants, the longest unused first."""
        return tuple(self._idle)

    def resize(self, capacity_bytes: int) -> None:
        """Change the capacity, which may then be less than what is used."""
        self.changes += capacity_bytes != self.capacity_bytes
        self.capacity_bytes = capacity_bytes

    @property
    def any_coming(self) -> bool:
        """Whether a copy is under way."""
        return self._coming > 0

    def put(self, entry: Entry) -> None:
        """Make room for a file."""
        assert entry.file.url not in self._entries
        self._entries[entry.file.url] = entry
        self._take(entry)
        entry.copied = entry.state is FileState.COMING
        self._settle(entry.file.url)
        self.changes += 1

    def drop(self, url: str) -> None:
        """Take a file's room back."""
        self._unidle(url)
        self._give(self._entries.pop(url))
        self.changes += 1

    def become(self, url: str, state: FileState, file: File | None = None, made: bool = False) -> None:
        """Change how far a file is, and its size if it is another one now."""
        entry = self._entries[url]
        self._unidle(url)
        self._give(entry)
        arrives = entry.pins and state is FileState.HERE and entry.state is FileState.COMING
        entry.state, entry.file, entry.made = state, file or entry.file, entry.made or made
        entry.copied = not entry.made and (entry.copied or state is FileState.COMING)
        self._take(entry)
        self._settle(url)
        # A file that arrives for its user alters nothing for others, unless nothing more is coming; 100,000 may.
        self.changes += not arrives or made or not self._coming

    def release(self, url: str) -> None:
        """Release a file that a task made here, as soon as it has no user left."""
        self._entries[url].made = False
        self._settle(url)
        self.changes += 1

    def expect(self, urls: Iterable[str]) -> None:
        """Note what tasks will want that aren't known yet, in their order: it may go, but goes last."""
        self._expected = dict.fromkeys(urls)

    def want(self, url: str, key: str, order: int) -> None:
        """Note a user: a task that is not final. A copy that had none is to be checked before use."""
        entry = self._entries.get(url)
        if entry is not None and entry.copied and entry.may_go and url not in self._users:
            entry.state = FileState.UNCHECKED
        self._expected.pop(url, None)
        self._users.setdefault(url, {})[key] = order
        self._unidle(url)

    def pin(self, url: str, key: str) -> None:
        """Hold a file for an admitted task."""
        self._entries[url].pins.add(key)

    def leave(self, url: str, key: str) -> None:
        """Forget a user, which is final."""
        users = self._users.get(url, {})
        users.pop(key, None)
        if not users:
            self._users.pop(url, None)
        if url in self._entries:
            self._entries[url].pins.discard(key)
            self._settle(url)
            self.changes += 1

    def _take(self, entry: Entry) -> None:
        self.used_bytes += entry.size_bytes
        self._coming += entry.state is FileState.COMING

    def _give(self, entry: Entry) -> None:
        self.used_bytes -= entry.size_bytes
        self._coming -= entry.state is FileState.COMING

    def _settle(self, url: str) -> None:
        """Mark a file as idle, or not, from now on."""
        if not self._entries[url].may_go or url in self._users:
            self._unidle(url)
        elif url not in self._idle:
            self._idle[url] = None
            self._idle_bytes += self._entries[url].size_bytes

    def _unidle(self, url: str) -> None:
        if url in self._idle:
            del self._idle[url]
            self._idle_bytes -= self._entries[url].size_bytes
            self.changes += 1

    def victims(self, need_bytes: int, keep: Iterable[str], also_wanted: bool) -> list[str] | None:
        """Choose what goes for some room: first what isn't wanted, the longest unused first; then what is expected.

        Parameters
        ----------
        need_bytes
            Room that must be free.
        keep
            Files that must stay.
        also_wanted
            Whether files may go that a task will use which isn't admitted yet; the one whose next use is
            farthest goes first (Belady's rule).

        Returns
        -------
        list of str or None
            None if all that may go isn't enough.
        """
        short_bytes = need_bytes - self.free_bytes
        if short_bytes <= 0:
            return []
        if short_bytes > self._idle_bytes and not also_wanted:
            return None
        stay = set(keep)
        going = (url for url in self._in_order(also_wanted) if url not in stay)
        chosen, short_bytes = first_enough(going, short_bytes, lambda url: self._entries[url].size_bytes)
        return None if short_bytes > 0 else chosen

    def _in_order(self, also_wanted: bool) -> Iterator[str]:
        """Iterate over what may go, first what is missed least."""
        yield from (url for url in self._idle if url not in self._expected)
        yield from (url for url in reversed(self._expected) if url in self._idle)
        if also_wanted:
            wanted = [url for url, entry in self._entries.items() if entry.may_go and url in self._users]
            yield from sorted(wanted, key=lambda url: -min(self._users[url].values()))
