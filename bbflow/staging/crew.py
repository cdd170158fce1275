"""How many threads copy the small files of one server, and how many files each takes at once. Pure; no clock."""

from dataclasses import dataclass

from bbflow.stores.urls import is_local

FIRST_FILES = 4
"""In the first batch from a server, while nothing is known of it: it may be slow."""
MOST_FILES = 64
"""In a batch: what is known of them is told after the batch."""


@dataclass(slots=True)
class Crew:
    """The threads that copy small files of one server.

    A small file takes a dozen system calls. Where they return at once, as on this host's own file systems, the threads
    do nothing but take the interpreter from one another: then one copies three times as fast as eight. Where they
    wait, as on a parallel file system or for an object store, as many are needed as one waits longer than it works.
    """

    most: int
    """Threads that there are."""
    batch_s: float
    """A batch is to take this long."""
    threads: int = 1
    """How many should work."""
    files: int = FIRST_FILES
    """How many a batch should have."""
    working: int = 0
    """How many work."""
    _is_alone: bool = False

    @classmethod
    def of(cls, url: str, most: int, batch_s: float) -> "Crew":
        """Return the crew for a file's server: other hosts are always waited for, and no file should hold others."""
        return cls(most, batch_s) if is_local(url) else cls(most, 0.0, threads=most, files=1)

    @property
    def has_place(self) -> bool:
        """Whether another thread should work."""
        return self.working < self.threads

    def begin(self) -> None:
        """Begin a thread's batch."""
        self._is_alone = self.working == 0
        self.working += 1

    def end(self, files: int, elapsed_s: float, cpu_s: float) -> None:
        """End a thread's batch, and learn from it.

        Parameters
        ----------
        files
            How many it copied; nothing is learnt if 0.
        elapsed_s, cpu_s
            How long that took, and how long its thread really worked.
        """
        self.working -= 1
        if files:
            self.files = min(max(int(self.batch_s * files / max(elapsed_s, 1e-6)), 1), MOST_FILES)
            if self._is_alone:  # else it may have waited for the others
                self.threads = min(max(round(elapsed_s / max(cpu_s, 1e-6)), 1), self.most)
