"""The two ways of docs/snakemake.md with Slurm, by Snakemake's own executor plugin for it."""

import importlib.util
import json
import sys
import tempfile
from pathlib import Path

import pytest
from batch import batch_system, lacking

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "snakemake-plugin"
SNAKEFILE = """
rule all:
    input: "out/sum.txt"
rule digest:
    input: "in/{n}.dat"
    output: "mid/{n}.txt"
    shell: "sha256sum < {input} > {output}; echo {input} $(hostname) >> {log_of_jobs}"
rule sum:
    input: expand("mid/{n}.txt", n=range(4))
    output: "out/sum.txt"
    shell: "cat {input} > {output}"
"""
EACH_NODE = ("persistence", "software-deployment", "sources", "source-cache")


@pytest.fixture(scope="module")
def slurm():
    reason = lacking()
    if reason is None and importlib.util.find_spec("snakemake_executor_plugin_slurm") is None:
        reason = "pip install snakemake-executor-plugin-slurm"
    if reason:
        pytest.skip(reason)
    with tempfile.TemporaryDirectory(prefix="bbslurm-") as folder, batch_system(Path(folder)) as batch:
        yield batch


class Flow:
    """A Snakefile that Slurm's jobs run; all of it in a directory that all hosts see."""

    def __init__(self, slurm, folder):
        self.slurm, self.folder = slurm, folder
        self.pfs, self.bb, self.log = folder / "pfs", folder / "bb", folder / "jobs"
        (self.pfs / "in").mkdir(parents=True)
        (folder / "Snakefile").write_text(SNAKEFILE.replace("{log_of_jobs}", str(self.log)))
        for number in range(4):
            (self.pfs / "in" / f"{number}.dat").write_bytes(bytes([number]) * 100_000)

    def run(self, *words):
        path = f"PYTHONPATH={PLUGIN}"
        command = [sys.executable, "-m", "snakemake", "--executor", "slurm", "--jobs", "4", "--nocolor"]
        command += ["--default-storage-provider", "bbflow", "--default-storage-prefix", self.pfs]
        command += ["--scheduler", "bbflow", "--storage-bbflow-events", self.folder / "events"]
        command += ["--default-resources", "slurm_partition='all'", "slurm_account='me'", "runtime=5", "mem_mb=100"]
        command += [
            "--slurm-status-command",
            "squeue",
            "--seconds-between-status-checks",
            "1",
            "--slurm-init-seconds-before-status-checks",
            "2",
        ]
        return self.slurm.run("env", path, *command, *words, cwd=self.folder)

    def fetched_ahead(self):
        """Files that this process has fetched."""
        events = map(json.loads, (self.folder / "events" / "events.jsonl").read_text().splitlines())
        return sorted(event["url"].rpartition("/")[2] for event in events if event["event"] == "transfer")

    def places(self):
        """Where the jobs read their inputs, and on which hosts they ran."""
        return [line.split() for line in self.log.read_text().splitlines()]

    def check(self):
        made = (self.pfs / "out" / "sum.txt").read_text().splitlines()
        assert len(set(made)) == 4
        assert not [path for path in self.bb.rglob("*") if path.is_file()], "nothing is left on the burst buffer"


@pytest.fixture
def flow(slurm, tmp_path):
    return Flow(slurm, tmp_path)


def test_inputs_of_slurms_jobs_are_fetched_ahead_to_a_burst_buffer_of_all_nodes(flow):
    flow.run("--local-storage-prefix", flow.bb, "--remote-job-local-storage-prefix", flow.bb)
    flow.check()
    assert {f"{n}.dat" for n in range(4)} <= set(flow.fetched_ahead())
    assert all(place.startswith(str(flow.bb)) for place, _ in flow.places())


def test_each_job_fetches_for_itself_to_its_nodes_burst_buffer(flow):
    own = flow.folder / "node"
    flow.run(
        "--local-storage-prefix", flow.bb, "--remote-job-local-storage-prefix", own, "--shared-fs-usage", *EACH_NODE
    )
    flow.check()
    assert all(place.startswith(str(own)) for place, _ in flow.places())
    assert not [path for path in own.rglob("*") if path.is_file()]
