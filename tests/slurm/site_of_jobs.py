"""A site whose jobs have a burst buffer: by Slurm's own plugin, or by scripts."""

import os
import pwd
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest
from batch import batch_system, lacking

ROOT = Path(__file__).parents[2]
CATALOG = ROOT / "catalogs" / "slurm"
USER = pwd.getpwnam("nobody")
PLUGIN = Path("/usr/lib/x86_64-linux-gnu/slurm-wlm/burst_buffer_lua.so")
BY_PLUGIN = "BurstBufferType=burst_buffer/lua\nJobSubmitPlugins=lua\nDebugFlags=BurstBuffer\n"
TASK = "TaskProlog={folder}/task_prolog.sh\n"
BY_SCRIPTS = "PrologSlurmctld={folder}/prolog.sh\nEpilogSlurmctld={folder}/epilog.sh\n" + TASK
STREAMS = "Prolog={folder}/node_prolog.sh\nEpilog={folder}/node_epilog.sh\nPrologFlags=Alloc\n"


@contextmanager
def site(more, settings=""):
    """Run a Slurm with more lines in its slurm.conf and in bbflow.yml; skips where there is none."""
    if reason := lacking() or (None if PLUGIN.exists() else "Slurm has no burst_buffer/lua: slurm-wlm-basic-plugins"):
        pytest.skip(reason)
    with tempfile.TemporaryDirectory(prefix="bbslurm-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        prepare(folder, settings)
        with batch_system(folder, more.format(folder=folder)) as batch:
            yield batch


def prepare(folder, settings):
    """Put the site's files beside slurm.conf."""
    program = folder / "bbflow-slurm"
    path = f"PYTHONPATH={ROOT}/slurm-plugin:{ROOT}"
    program.write_text(f'#!/bin/sh\n{path} exec {sys.executable} -m bbflow_slurm.cli "$@"\n')
    program.chmod(0o755)
    for kind in ("burst_buffer.lua", "job_submit.lua"):
        text = (CATALOG / kind).read_text()
        for old, new in (("/opt/bbflow/bin/bbflow-slurm", program), ("/etc/slurm/bbflow.yml", folder / "bbflow.yml")):
            assert text.count(old) == 1
            text = text.replace(old, str(new))
        (folder / kind).write_text(text)
    (folder / "burst_buffer.conf").write_text((CATALOG / "burst_buffer.conf").read_text())
    lines = f"directory: {folder}/bb\ncapacity: 20MiB\ngranularity: 1MiB\n"
    (folder / "bbflow.yml").write_text(lines + settings.format(folder=folder))
    for kind in ("prolog", "epilog", "node_prolog", "node_epilog", "task_prolog"):
        write_script(folder, kind)


def write_script(folder, kind):
    """Put the catalogue's script into the folder, with what the site would have changed."""
    text = (CATALOG / f"{kind}.sh").read_text().replace("DIRECTORY=/bb/jobs", f"DIRECTORY={folder}/bb")
    text = text.replace("/opt/bbflow/bin/bbflow-slurm", f"{folder}/bbflow-slurm")
    text = text.replace("/etc/slurm/bbflow.yml", f"{folder}/bbflow.yml")
    told = [f"export {each}\n" for each in (f"SLURM_CONF={folder}/slurm.conf", "PATH=/usr/bin:/bin")]
    if kind.startswith("node"):
        told.append(f"exec >>{folder}/{kind}.log 2>&1\n")
    (folder / f"{kind}.sh").write_text("#!/bin/sh\n" + "".join(told) + text)
    (folder / f"{kind}.sh").chmod(0o755)


@contextmanager
def user_directory():
    """Make a directory of the user whose jobs these are: Slurm gives root no burst buffer."""
    with tempfile.TemporaryDirectory(prefix="bbplace-") as name:
        os.chown(name, USER.pw_uid, USER.pw_gid)
        yield Path(name)


def submit(slurm, directory, text):
    """Submit a job script as the user; return its number."""
    (directory / "job.sh").write_text("#!/bin/bash\n" + text)
    for path in directory.rglob("*"):
        if path.name != "secret":
            os.chown(path, USER.pw_uid, USER.pw_gid)
    words = [f"--uid={USER.pw_uid}", f"--gid={USER.pw_gid}", f"--chdir={directory}", f"--output={directory}/said"]
    return slurm.run("sbatch", "--parsable", *words, "job.sh", cwd=directory).strip()


def left(slurm):
    """Return the names of what is left on the burst buffer."""
    return sorted(path.name for path in (slurm.folder / "bb").rglob("*") if path.name != ".bbflow-jobs")
