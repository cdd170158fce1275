"""A few whole runs of random programs; `make fuzz-runs` does thousands."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FUZZ = Path(__file__).parent
FIRST, RUNS = 104, 5
"""Always the same ones: odd names, packed values, text, two processes, late steps, a stream that is opened twice."""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_random_programs_come_out_right_or_are_refused():
    words = [sys.executable, FUZZ / "runs.py", "--runs", str(RUNS), "--seed", str(FIRST)]
    environment = os.environ | {"PYTHONPATH": f"{FUZZ.parents[1]}:{FUZZ}"}
    done = subprocess.run(words, capture_output=True, text=True, timeout=590, env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    assert f"{RUNS} runs from seed {FIRST}; wrong are none" in done.stdout
    assert done.stdout.count(": equal") > RUNS // 2, done.stdout
