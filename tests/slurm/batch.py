"""A Slurm cluster of this machine's own Debian packages: controller and slurmds on hosts of their own."""

import os
import shutil
import subprocess
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from testsupport.namespaces import Hosts, joined_hosts, missing
from testsupport.users import REACHED
from testsupport.waiting import until

ADDRESSES = {"login": "10.77.0.1", "c1": "10.77.0.2", "c2": "10.77.0.3"}
NODES = ("c1", "c2")
CPUS = 8
PATIENCE_S = 600.0
CONF = """
ClusterName=bbflow
SlurmctldHost=login(10.77.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SchedulerType=sched/backfill
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
MpiDefault=none
ReturnToService=2
SwitchType=switch/none
{nodes}
PartitionName=all Nodes={names} Default=YES MaxTime=INFINITE State=UP
"""


def lacking():
    """Return why there can be no Slurm here, or None."""
    if reason := missing():
        return reason
    for tool in ("slurmctld", "slurmd", "munged", "sbatch", "srun"):
        if shutil.which(tool) is None:
            return f"{tool} is missing: apt install slurm-wlm slurmd slurmctld munge"
    return None


@dataclass(frozen=True)
class Batch:
    """A running Slurm."""

    hosts: Hosts
    """Where its daemons run."""
    folder: Path
    """A directory that all hosts see, with slurm.conf and the logs."""

    @property
    def environment(self):
        """What Slurm's commands need."""
        return os.environ | {"SLURM_CONF": str(self.folder / "slurm.conf")}

    def inside(self, host, *words):
        """Return the command that runs on a host where all hosts' names are known, and Slurm's configuration."""
        # "ip netns exec" has mounted /sys anew, without its groups
        mounts = 'mount --bind "$0/hosts" /etc/hosts && mount --bind "$0" /etc/slurm && '
        mounts += f'mount -t cgroup2 none /sys/fs/cgroup && {REACHED} && exec "$@"'
        return self.hosts.inside(host, "unshare", "--mount", "sh", "-c", mounts, str(self.folder), *map(str, words))

    def run(self, *words, host="login", cwd=None, code=0):
        """Run a command of Slurm, which ends with a code, or with any if it is None; return what it said."""
        done = subprocess.run(
            self.inside(host, *words), env=self.environment, cwd=cwd, text=True, capture_output=True, timeout=PATIENCE_S
        )
        assert code is None or done.returncode == code, done.stdout + done.stderr + self.logs()
        return done.stdout

    def logs(self):
        """Return the ends of the daemons' logs."""
        return "\n".join(f"--- {path.name}\n{path.read_text()[-3000:]}" for path in sorted(self.folder.glob("*.log")))

    def wait_for(self, job):
        """Wait until a job has ended; return its state and exit code, such as COMPLETED and 0:0."""
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            shown = dict(word.split("=", 1) for word in self.run("scontrol", "show", "job", job).split() if "=" in word)
            if shown["JobState"] not in ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "STAGE_OUT"):
                return shown["JobState"], shown["ExitCode"]
            assert time.monotonic() < deadline_s, shown
            time.sleep(0.5)


@contextmanager
def batch_system(folder, more=""):
    """Start munge, slurmctld and two slurmds, with more lines in slurm.conf; all end with the block."""
    with ExitStack() as stack:
        hosts = stack.enter_context(joined_hosts(ADDRESSES, own_memory=True))
        batch = Batch(hosts, folder)
        _write_files(folder, more)
        munge = ["munged", "--foreground", "--force", "--key-file", folder / "munge.key", "--socket"]
        munge += [folder / "munge.socket", "--pid-file", folder / "munge.pid", "--log-file", folder / "munged.log"]
        start = lambda host, *words: stack.enter_context(_running(batch, host, words))  # noqa: E731
        start("login", *munge, "--seed-file", folder / "munge.seed")
        until(lambda: (folder / "munge.socket").exists(), batch.logs, poll_s=0.2)
        start("login", "slurmctld", "-D", "-f", folder / "slurm.conf")
        for node in NODES:
            start(node, "slurmd", "-D", "-N", node, "-f", folder / "slurm.conf")
        until(
            lambda: batch.run("sinfo", "--noheader", "--format=%D %t").split() == [str(len(NODES)), "idle"],
            batch.logs,
            poll_s=0.2,
        )
        yield batch


def _write_files(folder, more):
    nodes = "\n".join(
        f"NodeName={name} NodeAddr={ADDRESSES[name]} CPUs={CPUS} RealMemory=200000 State=UNKNOWN" for name in NODES
    )
    (folder / "slurm.conf").write_text(CONF.format(folder=folder, nodes=nodes, names=",".join(NODES)) + more)
    lines = ["127.0.0.1 localhost", *(f"{address} {name}" for name, address in ADDRESSES.items())]
    (folder / "hosts").write_text("\n".join(lines) + "\n")
    (folder / "munge.key").write_bytes(os.urandom(128))
    (folder / "munge.key").chmod(0o400)
    (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
    (folder / "state").mkdir()
    for node in NODES:
        (folder / f"spool-{node}").mkdir()


@contextmanager
def _running(batch, host, words):
    with (
        (batch.folder / "daemons.log").open("ab") as file,
        subprocess.Popen(batch.inside(host, *words), stdout=file, stderr=file, env=batch.environment) as process,
    ):
        try:
            yield process
        finally:
            process.kill()
