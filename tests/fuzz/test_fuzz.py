"""A bounded run of the fuzzer on each target; `make fuzz` runs it for long."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("atheris", reason="atheris has no wheel for this Python")
QUICK = {"index": 1000, "agent": 500, "server": 150}
SLOW = {"frames": 5000, "handshake": 5000, "data": 5000, "master": 200, "files_server": 150}
"""The same ones each time; new ones are what `make fuzz` is for."""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("runs", [QUICK, pytest.param(SLOW, marks=pytest.mark.slow)], ids=["quick", "slow"])
def test_no_bytes_break_a_node(tmp_path, runs):
    script = Path(__file__).with_name("fuzz.py")
    targets = ",".join(f"{target}:{count}" for target, count in runs.items())
    options = ["-seed=1", "-max_len=300", "-len_control=0"]
    done = subprocess.run(
        [sys.executable, script, targets, *options], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert re.findall(r"Done (\d+) runs", done.stderr) == list(map(str, runs.values()))
