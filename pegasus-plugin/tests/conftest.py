"""Pegasus's own pegasus-transfer and pegasus-integrity, and a transfer job that runs as Pegasus would run it."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import Pegasus
import pytest
import yaml

BIN = Path(sys.executable).parent
TOOLS = Path(Pegasus.__path__[0]) / "cli"


@pytest.fixture(scope="session")
def pegasus_bin(tmp_path_factory):
    """A directory with the programs that each worker has, as Pegasus installs them."""
    folder = tmp_path_factory.mktemp("pegasus") / "bin"
    folder.mkdir()
    for name in ("pegasus-transfer", "pegasus-integrity"):
        path = folder / name
        path.write_text(f'#!/bin/sh\nexec {sys.executable} -W ignore {TOOLS / name}.py "$@"\n')
        path.chmod(0o755)
    return folder


@dataclass
class Job:
    """A transfer job in a directory: its list, its environment, and what became of it."""

    folder: Path
    pegasus_bin: Path
    name: str = "stage_in_local_bb_0_0"
    environment: dict = field(default_factory=dict)
    entries: list = field(default_factory=list)

    def __post_init__(self):
        for name in ("source", "bb", "submit", "multipart"):
            (self.folder / name).mkdir(exist_ok=True)

    def make(self, name, size_bytes=1000):
        """Make a source file."""
        path = self.folder / "source" / name
        path.write_bytes(os.urandom(size_bytes))
        return path

    def target(self, lfn):
        """Where a file is to lie."""
        return self.folder / "bb" / "run0001" / lfn

    def add(self, lfn, *sources, to=None, **keys):
        """Ask for a file; of several sources the first is tried first."""
        number = len(sources)
        self.entries.append(
            {
                "type": "transfer",
                "linkage": "input",
                "lfn": lfn,
                "id": len(self.entries) + 1,
                "src_urls": [
                    {"site_label": "pfs", "url": str(url), "priority": number - place}
                    for place, url in enumerate(sources)
                ],
                "dest_urls": [{"site_label": "bb", "url": to or f"file://{self.target(lfn)}"}],
            }
            | keys
        )

    def start(self, *words, **popen):
        """Start it as HTCondor does: the list on standard input, settings in the environment."""
        environment = {
            "PATH": f"{self.pegasus_bin}{os.pathsep}{os.defpath}",
            "HOME": str(self.folder),
            "PEGASUS_DAG_JOB_ID": self.name,
            "_PEGASUS_WF_SUBMIT_DIR": str(self.folder / "submit"),
            "PEGASUS_MULTIPART_DIR": str(self.folder / "multipart"),
        }
        process = subprocess.Popen(
            [BIN / "bbflow-pegasus-transfer", "--threads", "2", "--max-attempts", "3", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment | self.environment,
            **popen,
        )
        process.stdin.write(json.dumps(self.entries))
        process.stdin.close()
        process.stdin = None
        return process

    def run(self, *words):
        """Run it; gives its exit code and all that it said."""
        process = self.start(*words)
        out, err = process.communicate(timeout=120)
        return process.returncode, out + err

    @property
    def attempts(self):
        """What it told Pegasus of its attempts."""
        records = [yaml.safe_load(path.read_text()) for path in sorted((self.folder / "multipart").iterdir())]
        return [attempt for record in records for each in record for attempt in each.get("transfer_attempts") or []]

    @property
    def left(self):
        """Names of all that is on the burst buffer beside whole files."""
        wanted = {self.target(entry["lfn"]) for entry in self.entries}
        return [path.name for path in (self.folder / "bb").rglob("*") if path.is_file() and path not in wanted]


@pytest.fixture
def job(tmp_path, pegasus_bin):
    return Job(tmp_path, pegasus_bin)
