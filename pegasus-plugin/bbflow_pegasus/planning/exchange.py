"""How the refiner asks for a layout and is answered: one thing a line, its parts with tabs between them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from bbflow.errors import ConfigError
from bbflow_pegasus.planning.facts import PREFIX, Job, PlanFacts, ReplicaSource
from bbflow_pegasus.planning.layout import TransferLayout


@dataclass(slots=True)
class Question:
    """What the refiner says."""

    properties: dict[str, str] = field(default_factory=dict)
    """Limits, by the names of properties."""
    remote: int = 0
    """Files that are staged in by jobs at the burst buffer's site itself."""
    sources: dict[str, ReplicaSource] = field(default_factory=dict)
    """What is staged in, by logical name."""
    made_bytes: dict[str, int] = field(default_factory=dict)
    """Sizes of files that jobs make, as far as they are said."""
    files: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    """By job, logical names or jobs by what they are to it."""

    @property
    def facts(self) -> PlanFacts:
        """The workflow."""
        jobs = {
            name: Job(name, _each(kinds, "input"), _each(kinds, "output"), _each(kinds, "result"))
            for name, kinds in self.files.items()
        }
        parents = {name: _each(kinds, "parent") for name, kinds in self.files.items()}
        return PlanFacts(jobs, parents, self.sources, self.made_bytes)


def read_question(lines: Iterable[str]) -> Question:
    """Read what the refiner says.

    Raises
    ------
    ConfigError
        If it is of another version.
    """
    question = Question()
    job: dict[str, list[str]] = {}
    for line in lines:
        kind, *rest = line.rstrip("\n").split("\t")
        if kind == "limit":
            question.properties[PREFIX + rest[0]] = rest[1]
        elif kind == "remote":
            question.remote = int(rest[0])
        elif kind == "source":
            question.sources[rest[0]] = ReplicaSource(int(rest[1]) if rest[1] else None, rest[2])
        elif kind == "job":
            job = question.files.setdefault(rest[0], {})
        elif kind in ("parent", "input", "output", "result"):
            job.setdefault(kind, []).append(rest[0])
            if kind == "output" and rest[1]:
                question.made_bytes[rest[0]] = int(rest[1])
        else:
            raise ConfigError(f"the refiner says {kind!r}, so it is of another version: plan by 'bbflow-pegasus plan'")
    return question


def answer(layout: TransferLayout) -> Iterator[str]:
    """Write what the refiner is to add."""
    for remark in layout.remarks:
        yield f"remark\t{remark}"
    for wave in layout.waves:
        yield "\t".join(("wave", *wave.tasks))
    for stage_in in layout.stage_ins:
        yield "\t".join(("stage_in", stage_in.name, *stage_in.members))
    for clean_up in layout.clean_ups:
        yield "\t".join(("clean_up", clean_up.name, *clean_up.members))
    for gate in layout.gates:
        yield f"no_op\t{gate}"
    for parent, child in layout.edges:
        yield f"edge\t{parent}\t{child}"


def _each(kinds: dict[str, list[str]], kind: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(kinds.get(kind, ())))
