"""DAGMan's input file: nodes, and who waits for whom."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

_OF_NODES = {"JOB": 1, "SCRIPT": 2, "PRIORITY": 1, "RETRY": 1, "CATEGORY": 1, "VARS": 1, "ABORT-DAG-ON": 1, "SUBDAG": 2}
"""By keyword of a line, the place of the node's name in it."""


@dataclass(slots=True)
class Dag:
    """A DAG file that can be changed."""

    head: list[str] = field(default_factory=list)
    """Lines that belong to no node."""
    nodes: dict[str, list[str]] = field(default_factory=dict)
    """By name, a node's lines."""
    edges: dict[tuple[str, str], None] = field(default_factory=dict)
    """Parents and children."""

    def submit_file(self, name: str) -> str:
        """Return the submit file of a node, relative to the submit directory."""
        return self.nodes[name][0].split()[2]

    def parents(self) -> dict[str, list[str]]:
        """Return each node's parents."""
        parents: dict[str, list[str]] = {name: [] for name in self.nodes}
        for parent, child in self.edges:
            parents[child].append(parent)
        return parents

    def children(self) -> dict[str, list[str]]:
        """Return each node's children."""
        children: dict[str, list[str]] = {name: [] for name in self.nodes}
        for parent, child in self.edges:
            children[parent].append(child)
        return children

    def remove(self, names: Collection[str]) -> None:
        """Take nodes out, with their edges."""
        for name in names:
            del self.nodes[name]
        self.edges = {edge: None for edge in self.edges if edge[0] not in names and edge[1] not in names}

    def lines_like(self, name: str, new: str, submit_file: str) -> list[str]:
        """Write the lines of a node that is like another one.

        Parameters
        ----------
        name
            The one it is like.
        new
            Its name.
        submit_file
            Relative to the submit directory.
        """
        stem = self.submit_file(name).removesuffix(".sub")
        copied = [line.replace(stem, submit_file.removesuffix(".sub")) for line in self.nodes[name]]
        return [_renamed(line, name, new) for line in copied]

    def connect(self, edges: Iterable[tuple[str, str]]) -> None:
        """Add edges."""
        self.edges |= dict.fromkeys(edges)

    def text(self) -> str:
        """Write the file."""
        nodes = ("\n".join(lines) + "\n" for lines in self.nodes.values())
        edges = (f"PARENT {parent} CHILD {child}" for parent, child in self.edges)
        return "\n".join([*self.head, "", *nodes, *edges, ""])


def parse_dag(text: str) -> Dag:
    """Read a DAG file."""
    dag = Dag()
    for line in text.splitlines():
        words = line.split()
        keyword = words[0].upper() if words else ""
        if keyword == "PARENT":
            child = next(place for place, word in enumerate(words) if word.upper() == "CHILD")
            dag.connect((parent, name) for parent in words[1:child] for name in words[child + 1 :])
        elif keyword in _OF_NODES:
            dag.nodes.setdefault(words[_OF_NODES[keyword]], []).append(line)
        elif words and not line.startswith("# End of DAG"):
            dag.head.append(line)
    return dag


def _renamed(line: str, name: str, new: str) -> str:
    return " ".join(new if word == name else word for word in line.split(" "))
