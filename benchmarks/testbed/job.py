"""The map job whose time is measured: five waves of tasks, the same for every way of reading."""

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Job:
    """One run of the map application; everything but `policy` and `passes` is the same in all of them."""

    policy: str
    """How inputs come: `naive` (each task reads the PFS itself), or the delay policy of the prefetch."""
    passes: int
    """How often a task reads its input: once (a word count), or twice (a sort, which samples first)."""
    directory: str
    """The BB storage."""
    board: str
    """Directory on which I/O phases are announced."""
    waves: int = 5
    """As many as in the paper (section III.A.3)."""
    slots: int = 4
    """Tasks that run at the same time."""
    input_bytes: int = 32 << 20
    """Each task's input: one object of its own."""
    compute_s: float = 1.4
    """Each task's computing: about as long as a wave's input needs on the free link."""
    fetchers: int = 2
    """Transfers at the same time: fewer than slots, as in the paper (8 for 512)."""
    slowdown_limit: float = 0.1
    """By how much the HPC application's phase may become longer under PartialDelay and Auto."""

    @property
    def keys(self) -> list[str]:
        """The tasks' inputs, in order."""
        return [f"inputs/part-{number:03d}" for number in range(self.waves * self.slots)]

    @property
    def capacity_bytes(self) -> int:
        """Room for the wave that runs and the one ahead."""
        return 2 * self.slots * self.input_bytes

    @property
    def delay_policy(self) -> str:
        """As the stager parses it."""
        limited = self.policy in ("partial-delay", "auto")
        return f"{self.policy}:limit={self.slowdown_limit}" if limited else self.policy

    def to_json(self) -> str:
        """Write as one word of a command line."""
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class Outcome:
    """What one run took; times in seconds on the machine's monotonic clock."""

    begun_s: float
    """When the first task was submitted."""
    ended_s: float
    """When the last task had ended."""
    read_s: tuple[float, ...]
    """For each task, how long its slot stood without computing: waiting for its input, and reading it."""

    @property
    def map_s(self) -> float:
        """The application's time."""
        return self.ended_s - self.begun_s
