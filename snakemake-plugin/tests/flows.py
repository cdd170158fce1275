"""Real workflows, run by Snakemake as a user runs it."""

import json
import os
import subprocess
import sys
from pathlib import Path

PLUGIN = Path(__file__).parents[1]
DIGESTS = """
rule all:
    input: "out/sum.txt"
rule digest:
    input: "in/{{n}}.dat"
    output: "mid/{{n}}.txt"
    shell: "sha256sum < {{input}} > {{output}}; {then}"
rule sum:
    input: expand("mid/{{n}}.txt", n=range({count}))
    output: "out/sum.txt"
    shell: "cat {{input}} > {{output}}"
"""
"""Digests of some files, and all of them in one."""


class Flow:
    """A Snakefile, its files on a PFS, and a burst buffer."""

    def __init__(self, directory, snakefile=DIGESTS):
        self.directory, self.snakefile = directory, snakefile
        self.pfs, self.bb, self.events = (directory / name for name in ("pfs", "bb", "events"))
        self.prefix = str(self.pfs)

    def make(self, count, size=100_000, then="true"):
        (self.directory / "Snakefile").write_text(self.snakefile.format(count=count, then=then))
        (self.pfs / "in").mkdir(parents=True)
        for number in range(count):
            (self.pfs / "in" / f"{number}.dat").write_bytes(bytes([number % 256]) * size)

    def words(self, *words, scheduler="bbflow", provider="bbflow", **settings):
        """The command; settings of the storage by their names."""
        found = [sys.executable, "-m", "snakemake", "--cores", "2", "--scheduler", scheduler, "--nocolor"]
        found += ["--default-storage-provider", provider, "--default-storage-prefix", self.prefix]
        found += ["--local-storage-prefix", str(self.bb)]
        if provider == "bbflow":
            settings = {"events": self.events} | settings
        for name, value in settings.items():
            found += [f"--storage-{provider}-{name}", str(value)]
        return [*found, *words]

    @property
    def environment(self):
        # Snakemake looks for plugins on the path, which has none of an editable install
        path = os.pathsep.join([str(PLUGIN), os.environ.get("PYTHONPATH", "")])
        return {**os.environ, "PYTHONPATH": path, "XDG_CACHE_HOME": str(self.directory / "cache")}

    def run(self, *words, **settings):
        command = self.words(*words, **settings)
        return subprocess.run(
            command, cwd=self.directory, env=self.environment, capture_output=True, text=True, timeout=240, check=False
        )

    def sum(self):
        return (self.pfs / "out" / "sum.txt").read_text()

    def left(self):
        """Files on the burst buffer."""
        return [path for path in self.bb.rglob("*") if not path.is_dir() or path.is_symlink()]

    def noted(self, kind):
        lines = (self.events / "events.jsonl").read_text().splitlines()
        return [event for event in map(json.loads, lines) if event["event"] == kind]
