"""Submit directories as Pegasus plans them, so that planning can be tried where no Pegasus is."""

import json
from dataclasses import dataclass
from pathlib import Path

from bbflow_pegasus.cli import main

BB, SUBMIT, OUTPUT = "file:///bb/run0001", "00/00", "file:///pfs/output"
SUB = """executable = /opt/pegasus/bin/{executable}
environment = "PEGASUS_DAG_JOB_ID={name} PEGASUS_WF_LABEL=wf{more}"
input = {path}//{stem}.in
output = {path}//{stem}.out
error = {path}//{stem}.err
transfer_input_files = $(wf_submit_dir)/pegasus-worker.tar.gz{metas},$(wf_submit_dir)/pegasus-lite-common.sh
+pegasus_wf_dag_job_id = "{name}"
queue
"""
LITE = """#!/bin/bash
. pegasus-lite-common.sh
pegasus-transfer --threads 1  1>&2 << 'eof'
{inputs}
eof

pegasus-integrity --print-timings --verify=stdin 1>&2 << 'eof'
nothing
eof
pegasus-kickstart work
pegasus-transfer --threads 1  1>&2 << 'eof'
{outputs}
eof

pegasus_lite_final_exit
"""


@dataclass(frozen=True)
class Planned:
    """A job of a workflow."""

    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    results: tuple[str, ...] = ()


def copying(lfn, source, target, **more):
    return {
        "type": "transfer",
        "lfn": lfn,
        "id": 1,
        "src_urls": [{"site_label": source[0], "url": f"{source[1]}/{lfn}"}],
        "dest_urls": [{"site_label": target[0], "url": f"{target[1]}/{lfn}"}],
        **more,
    }


def removing(url, recursive="False"):
    return {"id": 1, "type": "remove", "target": {"site_label": "bb", "url": url, "recursive": recursive}}


class Planner:
    """Writes what pegasus-plan writes: inputs in one bundle, results in one, cleanup by level, as its defaults do.

    Parameters
    ----------
    path
        Becomes the submit directory.
    jobs
        By name.
    sizes
        In bytes, by logical name.
    version
        That Pegasus says it has.
    properties
        More of them.
    source
        Where inputs are.
    """

    def __init__(self, path, jobs, sizes, version="5.1.2", properties=(), source="file:///pfs/input"):
        self.path, self.jobs, self.sizes, self.source = Path(path), jobs, sizes, source
        self.makers = {name: job for job, files in jobs.items() for name in files.outputs}
        self.nodes, self.edges, self.events = {}, [], []
        (self.path / SUBMIT).mkdir(parents=True)
        self._create_dir()
        self._stage_in()
        self._compute()
        self._stage_out()
        self._clean_up()
        self._save(version, properties)

    def _node(self, name, kind, executable="pegasus-transfer", metas=(), more="", entries=None):
        stem = f"{SUBMIT}/{name}"
        metas = "".join(f",$(wf_submit_dir)/{SUBMIT}/{meta}.meta" for meta in metas)
        text = SUB.format(name=name, path=self.path, stem=stem, executable=executable, metas=metas, more=more)
        (self.path / f"{stem}.sub").write_text(text)
        if entries is not None:
            (self.path / f"{stem}.in").write_text(json.dumps(entries))
        self.nodes[name] = f"JOB {name} {stem}.sub\nSCRIPT POST {name} pegasus-exitcode -r $RETURN .//{stem}.out\n"
        self.nodes[name] += f"RETRY {name} 1\n"
        self.events.append(
            f'ts=0 event=job.info xwf.id=1 job.id="{name}" submit_file="{stem}.sub" type="1" type_desc="{kind}" '
        )

    def _create_dir(self):
        self._node("create_dir_wf_0_bb", "create-dir", entries=[])

    def _stage_in(self):
        staged = [n for job in self.jobs.values() for n in job.inputs if n not in self.makers]
        self.staged = list(dict.fromkeys(staged))
        if not self.staged:
            return
        size = {name: {"attributes": {"size": str(self.sizes[name])}} if name in self.sizes else {} for name in staged}
        entries = [copying(name, ("local", self.source), ("bb", BB), **size[name]) for name in self.staged]
        self._node("stage_in_local_bb_0_0", "stage-in-tx", entries=entries)
        self.edges.append(("create_dir_wf_0_bb", "stage_in_local_bb_0_0"))

    def _compute(self):
        for name, job in self.jobs.items():
            staged = [file for file in job.inputs if file in self.staged]
            makers = list(dict.fromkeys(self.makers[file] for file in job.inputs if file in self.makers))
            metas = [*(["stage_in_local_bb_0_0"] if staged else []), *makers]
            self._node(name, "compute", "x", metas)
            inputs = [copying(file, ("bb", BB), ("condorpool", "file://$PWD")) for file in job.inputs]
            outputs = [copying(file, ("condorpool", "file://$PWD"), ("bb", BB)) for file in job.outputs]
            script = LITE.format(inputs=json.dumps(inputs), outputs=json.dumps(outputs))
            (self.path / SUBMIT / f"{name}.sh").write_text(script)
            self.edges += [(parent, name) for parent in metas]

    def _stage_out(self):
        results = {file: name for name, job in self.jobs.items() for file in job.results}
        if results:
            metas = "".join(f"$(wf_submit_dir)/{SUBMIT}/{name}.meta," for name in dict.fromkeys(results.values()))
            entries = [copying(file, ("bb", BB), ("local", OUTPUT)) for file in results]
            more = f" _PEGASUS_TRANSFER_INPUT_FILES={metas} X=1"
            self._node("stage_out_local_bb_0_0", "stage-out-tx", more=more, entries=entries)
            self.edges += [(name, "stage_out_local_bb_0_0") for name in dict.fromkeys(results.values())]

    def _clean_up(self):
        files = [*self.staged, *self.makers]
        for number in range(2):
            part = files[number::2]
            if part:
                self._node(f"clean_up_bb_level_1_{number}", "cleanup", entries=[removing(f"{BB}/{f}") for f in part])
                users = [n for n, job in self.jobs.items() if set(part) & {*job.inputs, *job.outputs}]
                self.edges += [(user, f"clean_up_bb_level_1_{number}") for user in users]
                if any(set(job.results) & set(part) for job in self.jobs.values()):
                    self.edges.append(("stage_out_local_bb_0_0", f"clean_up_bb_level_1_{number}"))
        self._node("cleanup_wf_0_bb", "cleanup", entries=[removing(BB, "True")])
        self.edges += [(name, "cleanup_wf_0_bb") for name in self.nodes if name.startswith("clean_up")]

    def _save(self, version, properties):
        edges = "\n".join(f"PARENT {parent} CHILD {child}" for parent, child in self.edges)
        (self.path / "wf-0.dag").write_text("# DAG wf\nMAXJOBS stagein 10\n\n" + "\n".join(self.nodes.values()) + edges)
        told = [f'ts=0 event=job.edge xwf.id=1 parent.job.id="{p}" child.job.id="{c}" ' for p, c in self.edges]
        (self.path / "wf-0.static.bp").write_text("\n".join(["ts=0 event=task.info", *self.events, *told, ""]))
        made = {f"{name}.size": str(self.sizes[name]) for name in self.makers if name in self.sizes}
        (self.path / "wf-0.metadata").write_text(json.dumps({"graph": {"jobs": {"all": made}}}))
        (self.path / "pegasus.1.properties").write_text("\n".join(["#user properties", *properties]))
        braindump = {"planner_version": version, "dag": "wf-0.dag", "properties": "pegasus.1.properties"}
        (self.path / "braindump.yml").write_text(json.dumps(braindump))


def fan(count, results=True):
    """Independent jobs, each with its own input and a shared one, and one that reads all they make."""
    jobs = {
        f"job_{n}": Planned((f"in_{n}", "shared"), (f"out_{n}",), (f"out_{n}",) if results and n % 2 else ())
        for n in range(count)
    }
    return jobs | {"last": Planned((*(f"out_{n}" for n in range(count)), "late"), ("final",), ("final",))}


def sizes_of(jobs, size_bytes=100):
    return {name: size_bytes for job in jobs.values() for name in (*job.inputs, *job.outputs)} | {"shared": 10}


def wave(path, *options):
    return main(["wave", str(path), *options])
