"""The jobs and edges that make waves of a planned workflow. Pure.

Order comes from edges alone: a transfer that waited would hold a slot of its category, and two such would block each
other forever. A no-op job, the gate of a wave, waits for all that must be over before the wave's files come, and only
stage-in jobs wait for it. Those of the wave ahead needn't be over, or the link would rest while the next ones start:
they begin beside them, and let them go first as long as they run; those of the wave before it must be. A job that
stages nothing, but makes files of a known size, needs room too: it waits for the newest gate that waits for removed
files, but not for waves to be over, so that jobs lead to no more than they must.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from bbflow.staging.ahead import PlannedWave, natural, plan_ahead
from bbflow.staging.files import File, Task
from bbflow_pegasus.planning.facts import Job, Limits, PlanFacts
from bbflow_pegasus.planning.implied import implied_edges

Edge = tuple[str, str]
"""A job, and one that waits for it."""


NO_OP = "noop_"
"""How names of no-op jobs begin: the monitoring daemon looks for no output of such."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """A transfer or cleanup job."""

    name: str
    """In the executable workflow."""
    wave: int
    """The wave whose files it moves or removes."""
    members: tuple[str, ...]
    """Logical names of its files; for a stage-out job, the jobs whose results it moves."""


@dataclass(frozen=True, slots=True)
class TransferLayout:
    """How a workflow's transfers are changed."""

    waves: tuple[PlannedWave, ...]
    """In the order in which they come."""
    sizes: dict[str, int]
    """By logical name, the bytes that were reckoned with."""
    stage_ins: tuple[Bundle, ...]
    """In place of those that Pegasus would make."""
    stage_outs: tuple[Bundle, ...]
    """In place of those that Pegasus would make: results of different waves don't share one."""
    clean_ups: tuple[Bundle, ...]
    """For files that a later wave needs the room of; the rest is left to Pegasus's own."""
    gates: tuple[str, ...]
    """No-op jobs."""
    edges: tuple[Edge, ...]
    """Without those from a job to its stage-out job."""
    remarks: tuple[str, ...]
    """What a user should know."""


def lay_out(facts: PlanFacts, limits: Limits) -> TransferLayout:
    """Plan the waves of a workflow.

    Raises
    ------
    CapacityError
        If a job's files have no room at once.
    """
    sizes = {name: source.size_bytes for name, source in facts.sources.items() if source.size_bytes is not None}
    unsized = len(facts.sources) - len(sizes)
    sizes |= {name: size for name, size in facts.made_bytes.items() if name not in facts.sources}
    made = {name for job in facts.jobs.values() for name in job.outputs}
    tasks = [_task(job, facts, sizes, made) for job in facts.jobs.values()]
    waves = plan_ahead(tasks, facts.parents, limits.slots, limits.capacity_bytes, limits.lookahead)
    remarks = [*_about_sizes(unsized, len(facts.sources)), *_about_made(made - sizes.keys(), len(made))]
    return _Drawing(facts, limits, waves, sizes).layout(remarks)


def _task(job: Job, facts: PlanFacts, sizes: dict[str, int], made: set[str]) -> Task:
    """Return a job's files in an order that doesn't depend on who tells of them."""
    inputs = sorted((name for name in job.inputs if name in facts.sources or name in made), key=natural)
    outputs = sorted(job.outputs, key=natural)
    return Task(job.name, *(tuple(File(name, sizes.get(name, 0)) for name in names) for names in (inputs, outputs)))


def _about_sizes(unsized: int, count: int) -> list[str]:
    if unsized and unsized == count:
        return [f"none of {count} inputs has a known size: waves are by count, and the capacity isn't checked"]
    if unsized:
        return [f"{unsized} of {count} inputs have no known size and count as nothing: give their replicas a size"]
    return []


def _about_made(unsized: set[str], count: int) -> list[str]:
    if not unsized:
        return []
    return [
        f"{len(unsized)} of {count} files that jobs make have no known size (metadata 'size' in the workflow): "
        "they take room that isn't reckoned with"
    ]


@dataclass(slots=True)
class _Drawing:
    """A layout that is being made, wave by wave."""

    facts: PlanFacts
    limits: Limits
    waves: Sequence[PlannedWave]
    sizes: dict[str, int]
    stage_ins: list[Bundle] = field(default_factory=list)
    stage_outs: list[Bundle] = field(default_factory=list)
    gates: list[str] = field(default_factory=list)
    edges: dict[Edge, None] = field(default_factory=dict)
    _brought: dict[str, str] = field(default_factory=dict)
    """By file, the stage-in job that brings it."""
    _copied_out: dict[str, str] = field(default_factory=dict)
    """By file, its stage-out job."""
    _users: dict[str, list[str]] = field(default_factory=dict)
    """By file on the BB, who has used or made it since it came."""
    _last: dict[str, int] = field(default_factory=dict)
    """By file, the last wave that used it."""
    _cleaned: dict[int, list[Bundle]] = field(default_factory=dict)
    """By wave, jobs that remove files after it."""
    _pending: dict[str, None] = field(default_factory=dict)
    """What the next gate of stage-in jobs waits for."""
    _coming: list[str] = field(default_factory=list)
    """Stage-in jobs of the newest wave that has some: the gate after the next waits for them."""
    _removing: dict[str, None] = field(default_factory=dict)
    """Cleanup jobs that the next gate waits for."""
    _room: str | None = None
    """The newest gate that waits for cleanup jobs, and so for all those before."""

    def layout(self, remarks: Iterable[str]) -> TransferLayout:
        over = 0
        for number, wave in enumerate(self.waves):
            self._clean_up(wave.gone)
            self._pending |= dict.fromkeys(key for ended in self.waves[over : wave.over] for key in ended.tasks)
            over = wave.over
            bundles = self._stage_in(number, wave)
            self._use(number, wave)
            self._gate(number, wave, bundles)
            self._stage_out(number, wave)
        self._clean_up(self._left_after_coming_again())
        implied = self._implied_by_others()
        return TransferLayout(
            waves=tuple(self.waves),
            sizes=self.sizes,
            stage_ins=tuple(self.stage_ins),
            stage_outs=tuple(self.stage_outs),
            clean_ups=tuple(self._clean_ups()),
            gates=tuple(self.gates),
            edges=tuple(edge for edge in self.edges if edge not in implied),
            remarks=tuple(remarks),
        )

    def _stage_in(self, number: int, wave: PlannedWave) -> list[str]:
        """Part the files that come with a wave among a few jobs."""
        wanting = [files for files in wave.staged if files]
        parts = min(self.limits.transfers, len(wanting))
        names = [f"stage_in_local_{self.limits.mark}_{number}_{part}" for part in range(parts)]
        for part, name in enumerate(names):
            files = wanting[len(wanting) * part // parts : len(wanting) * (part + 1) // parts]
            self.stage_ins.append(Bundle(name, number, tuple(file for group in files for file in group)))
            self._brought |= dict.fromkeys(self.stage_ins[-1].members, name)
            self._users |= {file: [] for file in self.stage_ins[-1].members}
        return names

    def _use(self, number: int, wave: PlannedWave) -> None:
        """Make jobs wait for who brings their files, and note that they use them."""
        for job in (self.facts.jobs[key] for key in wave.tasks):
            for file in dict.fromkeys(job.inputs):
                if file in self._brought:
                    self.edges[self._brought[file], job.name] = None
            self._users |= {file: [] for file in job.outputs}
            for file in dict.fromkeys((*job.inputs, *job.outputs)):
                if file in self._users:
                    self._users[file].append(job.name)
                    self._last[file] = number

    def _gate(self, number: int, wave: PlannedWave, stage_ins: list[str]) -> None:
        """Make what takes room with this wave wait for what must be over."""
        alone = [key for key in wave.tasks if self._takes_room_alone(key, stage_ins)]
        before = self._removing | (self._pending if stage_ins else {})
        if before and (stage_ins or alone):
            gate = f"{NO_OP}{self.limits.mark}_wave_{number}"
            self.gates.append(gate)
            before |= {} if self._room is None else {self._room: None}
            self.edges |= dict.fromkeys([*((key, gate) for key in before), *((gate, key) for key in stage_ins)])
            self._room = gate if self._removing else self._room
            self._removing = {}
            self._pending = {gate: None} if stage_ins else self._pending
        if self._room is not None:
            self.edges |= dict.fromkeys((self._room, key) for key in alone)
        if stage_ins:
            self._pending |= dict.fromkeys(self._coming)
            self._coming = stage_ins

    def _takes_room_alone(self, key: str, stage_ins: list[str]) -> bool:
        """Whether a job makes files of a known size, and waits for no file of its own wave."""
        job = self.facts.jobs[key]
        made_bytes = sum(self.sizes.get(file, 0) for file in job.outputs)
        return made_bytes > 0 and not any(self._brought.get(file) in stage_ins for file in job.inputs)

    def _stage_out(self, number: int, wave: PlannedWave) -> None:
        parts: dict[str, list[str]] = {}
        for index, key in enumerate(key for key in wave.tasks if self.facts.jobs[key].results):
            name = f"stage_out_local_{self.limits.mark}_{number}_{index % self.limits.transfers}"
            parts.setdefault(name, []).append(key)
            self._copied_out |= dict.fromkeys(self.facts.jobs[key].results, name)
        self.stage_outs += [Bundle(name, number, tuple(keys)) for name, keys in parts.items()]

    def _clean_up(self, files: Iterable[str]) -> None:
        """Remove files when all who used them since they came are done, and their copies are out.

        Those that go for different waves don't share a job: none of these would wait for another one's copies.
        """
        parts: dict[int, list[str]] = {}
        for file in files:
            parts.setdefault(self._last[file], []).append(file)
        for number, names in parts.items():
            bundles = self._cleaned.setdefault(number, [])
            job = f"clean_up_{self.limits.mark}_wave_{number}_{len(bundles)}"
            bundles.append(Bundle(job, number, tuple(names)))
            for file in names:
                out = [self._copied_out[file]] if file in self._copied_out else []
                self.edges |= dict.fromkeys((user, job) for user in (*self._users.pop(file), *out))
                self._brought.pop(file, None)
            self._removing[job] = None

    def _clean_ups(self) -> list[Bundle]:
        return [bundle for _, bundles in sorted(self._cleaned.items()) for bundle in bundles]

    def _implied_by_others(self) -> set[Edge]:
        """Return edges to cleanup jobs that needn't be drawn; users of a file wait for those who brought it anyway."""
        parents = {name: list(each) for name, each in self.facts.parents.items()}
        for parent, child in self.edges:
            parents.setdefault(child, []).append(parent)
        parents |= {bundle.name: list(bundle.members) for bundle in self.stage_outs}
        return implied_edges(parents, [bundle.name for bundle in self._clean_ups()])

    def _left_after_coming_again(self) -> list[str]:
        """Return files that come more than once and are there at the end: Pegasus's own jobs would remove them once."""
        removed = {file for bundle in self._clean_ups() for file in bundle.members}
        return [file for file in self._users if file in removed]
