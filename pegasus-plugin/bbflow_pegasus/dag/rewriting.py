"""A planned DAG gets waves, and loses them again.

Files of jobs that are new, or do something else, go to a directory of their own. Where jobs' checksums come from, which
jobs there are and which wait for which is changed in Pegasus's own files; what it wrote is kept in that directory.
"""

import os
import shutil
from collections.abc import Mapping

from bbflow.errors import ConfigError
from bbflow.host.atomic import write_whole
from bbflow.host.belongings import belongings, make, remove
from bbflow_pegasus.dag.events import with_new_jobs
from bbflow_pegasus.dag.nodes import Dag, parse_dag
from bbflow_pegasus.dag.planned import Planned, read_planned
from bbflow_pegasus.dag.submitdir import SubmitDir
from bbflow_pegasus.dag.submitfiles import NO_OP_SUBMIT, like, with_checksums
from bbflow_pegasus.dag.transferlists import Entry, removed_url, write_entries
from bbflow_pegasus.planning.asking import with_sizes
from bbflow_pegasus.planning.facts import Limits
from bbflow_pegasus.planning.layout import TransferLayout, lay_out
from bbflow_pegasus.planning.said import WAVES, write_waves

FOLDER = "bbflow"
"""In the submit directory: files of jobs that `wave` made."""
KEPT = f"{FOLDER}/without-waves"
"""In the submit directory: files as Pegasus wrote them, where they were."""
_OURS = ("*.sub", "*.in", "without-waves/*.dag", "without-waves/*.static.bp", "without-waves/**/*.sub")
"""What is put into the folder."""


def add_waves(where: SubmitDir, limits: Limits) -> TransferLayout | None:
    """Return a planned workflow its waves, from what Pegasus wrote, however often it is called.

    Returns
    -------
    Layout or None
        None if Pegasus stages nothing to this site.

    Raises
    ------
    ConfigError
        If the workflow has been started.
    CapacityError
        If a job's files have no room at once.
    """
    remove_waves(where)
    dag = parse_dag(where.dag.read_text())
    planned = read_planned(where, dag, limits.site)
    if not planned.stage_ins:
        return None
    layout = lay_out(with_sizes(planned.facts, os.environ), limits)
    _Rewriting(where, dag, planned, layout).write()
    write_waves(where.path / WAVES, layout, limits)
    return layout


def remove_waves(where: SubmitDir) -> bool:
    """Put back what Pegasus wrote.

    Returns
    -------
    bool
        Whether there were waves.

    Raises
    ------
    ConfigError
        If the workflow has been started.
    """
    if where.has_run:
        raise ConfigError(f"{where.path} has been started: its jobs must stay as they are; plan the workflow again")
    kept = [path for path in belongings(where.path / FOLDER) if path.is_relative_to(where.path / KEPT)]
    for path in kept:
        shutil.copy2(path, where.path / path.relative_to(where.path / KEPT))
    # At last: what was broken off before can be done again, since all that was kept is still there.
    remove(where.path / FOLDER)
    (where.path / WAVES).unlink(missing_ok=True)
    return bool(kept)


class _Rewriting:
    """Replaces Pegasus's bundles of transfers by those of a layout."""

    def __init__(self, where: SubmitDir, dag: Dag, planned: Planned, layout: TransferLayout) -> None:
        self._where = where
        self._dag = dag
        self._planned = planned
        self._layout = layout
        self._parents = dag.parents()
        self._children = dag.children()
        self._made: dict[str, tuple[str, list[Entry]]] = {}
        """By name of a transfer or cleanup job, the one it is like, and what it does."""
        self._edges: list[tuple[str, str]] = list(layout.edges)

    def write(self) -> None:
        """Write the new files, and at last the DAG."""
        make(self._where.path / FOLDER, *_OURS)
        brought, copied_out = _by_file(self._planned.stage_ins), _by_file(self._planned.stage_outs)
        for bundle in self._layout.stage_ins:
            self._make(bundle.name, [brought[file] for file in bundle.members])
        for bundle in self._layout.stage_outs:
            jobs = (self._planned.facts.jobs[name] for name in bundle.members)
            self._make(bundle.name, [copied_out[file] for job in jobs for file in job.results])
            self._edges += ((job, bundle.name) for job in bundle.members)
        emptied = self._take_from_clean_ups()
        texts = {_file(name, "sub"): self._text(name) for name in self._made}
        changed = self._with_new_checksums()
        nodes = {name: self._dag.lines_like(made[0], name, _file(name, "sub")) for name, made in self._made.items()}
        nodes |= {gate: [f"JOB {gate} {_file(gate, 'sub')} NOOP"] for gate in self._layout.gates}
        texts |= dict.fromkeys((_file(gate, "sub") for gate in self._layout.gates), NO_OP_SUBMIT)
        self._dag.remove({*self._planned.stage_ins, *self._planned.stage_outs, *emptied})
        self._dag.nodes |= nodes
        self._dag.connect(edge for edge in self._edges if all(name in self._dag.nodes for name in edge))
        for file, text in texts.items():
            (self._where.path / file).write_text(text)
        for name, (_, entries) in self._made.items():
            write_entries(self._where.path / _file(name, "in"), entries)
        events = self._where.static_events
        told = with_new_jobs(events.read_text(), self._dag, {name: made[0] for name, made in self._made.items()})
        for file, text in (changed | {events.name: told, self._where.dag.name: self._dag.text()}).items():
            self._change(file, text)

    def _make(self, name: str, found: list[tuple[str, Entry]]) -> None:
        """Make a job do what others did for some files; Pegasus's own jobs before and after those wait the same way."""
        planned = self._planned
        jobs = dict.fromkeys(job for job, _ in found)
        self._made[name] = (next(iter(jobs)), [entry for _, entry in found])
        # A new job may have the name of one that goes; what waits for new ones, the layout says.
        ours = planned.facts.jobs.keys() | planned.stage_ins.keys() | planned.stage_outs.keys()
        self._edges += ((parent, name) for job in jobs for parent in self._parents[job] if parent not in ours)
        self._edges += ((name, child) for job in jobs for child in self._children[job] if child not in ours)

    def _take_from_clean_ups(self) -> list[str]:
        """Remove files whose room is needed by jobs of their own; give Pegasus's jobs that have nothing left to do."""
        by_file = {self._file(entry): (job, entry) for job, each in self._planned.clean_ups.items() for entry in each}
        for bundle in self._layout.clean_ups:
            for file in bundle.members:
                if file not in by_file:
                    raise ConfigError(
                        f"{file} must leave the burst buffer for later waves, but no cleanup job removes it: plan with "
                        "--cleanup inplace, and don't ask to keep it"
                    )
            self._make(bundle.name, [by_file[file] for file in bundle.members])
        taken = {file for bundle in self._layout.clean_ups for file in bundle.members}
        left = {
            job: [entry for entry in entries if self._file(entry) not in taken]
            for job, entries in self._planned.clean_ups.items()
        }
        smaller = {job: entries for job, entries in left.items() if len(entries) < len(self._planned.clean_ups[job])}
        self._made |= {job: (job, entries) for job, entries in smaller.items() if entries}
        return [job for job, entries in smaller.items() if not entries]

    def _file(self, entry: Entry) -> str | None:
        return self._planned.names_of.get(str(removed_url(entry)))

    def _text(self, name: str) -> str:
        """Return the submit file of a job that is like another one."""
        origin = self._made[name][0]
        text = like(self._submit_text(origin), origin, self._stem(origin), name, f"{FOLDER}/{name}")
        members = {m for bundle in self._layout.stage_outs if bundle.name == name for m in bundle.members}
        outside = self._planned.facts.jobs.keys() - members if members else ()
        return with_checksums(text, dict.fromkeys(outside, ()))

    def _with_new_checksums(self) -> dict[str, str]:
        """Return changed submit files of users' jobs: checksums come from the jobs that bring the files now."""
        bringing: dict[str, list[str]] = {}
        brought = {bundle.name for bundle in self._layout.stage_ins}
        for parent, child in self._layout.edges:
            if parent in brought and child in self._planned.facts.jobs:
                bringing.setdefault(child, []).append(_file(parent, "meta"))
        texts: dict[str, str] = {}
        for job, files in bringing.items():
            first, *others = [parent for parent in self._parents[job] if parent in self._planned.stage_ins]
            texts[self._dag.submit_file(job)] = with_checksums(
                self._submit_text(job), {first: files} | {other: [] for other in others}
            )
        return texts

    def _submit_text(self, name: str) -> str:
        return (self._where.path / self._dag.submit_file(name)).read_text()

    def _stem(self, name: str) -> str:
        return self._dag.submit_file(name).removesuffix(".sub")

    def _change(self, file: str, text: str) -> None:
        """Replace one of Pegasus's own files, which is kept."""
        path, kept = self._where.path / file, self._where.path / KEPT / file
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, kept)
        write_whole(path, text)


def _by_file(lists: Mapping[str, list[Entry]]) -> dict[str, tuple[str, Entry]]:
    return {entry["lfn"]: (job, entry) for job, entries in lists.items() for entry in entries}


def _file(name: str, suffix: str) -> str:
    return f"{FOLDER}/{name}.{suffix}"
