"""A bounded run of the fuzzer on each target; `make fuzz` runs it for long."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("atheris", reason="atheris has no wheel for this Python")
RUNS = {
    "frames": 5000,
    "handshake": 5000,
    "data": 5000,
    "index": 1000,
    "agent": 500,
    "master": 200,
    "server": 150,
    "files_server": 150,
}
"""The same ones each time; new ones are what `make fuzz` is for."""


@pytest.mark.parametrize(
    "target",
    [name if name in ("index", "agent", "server") else pytest.param(name, marks=pytest.mark.slow) for name in RUNS],
)
def test_no_bytes_break_a_node(tmp_path, target):
    script = Path(__file__).with_name("fuzz.py")
    options = [f"-runs={RUNS[target]}", "-seed=1", "-max_len=300", "-len_control=0"]
    done = subprocess.run(
        [sys.executable, script, target, *options], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert f"Done {RUNS[target]} runs" in done.stderr
