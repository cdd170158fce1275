"""The engine's decoders on damaged bytes, with the compiler's sanitizers."""

import re
import subprocess

import pytest


@pytest.mark.parametrize("seed", [1, 2])
def test_no_bytes_break_the_engine_s_decoders(programs, seed):
    done = subprocess.run([programs / "decoders", "40000", str(seed)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    taken, tried = map(int, re.findall(r"\d+", done.stdout))
    assert 0 < taken < tried
