"""The engine's decoders on damaged bytes, with the compiler's sanitizers."""

import json
import re
import subprocess

import msgspec
import pytest


def test_no_bytes_break_the_engine_s_decoders(programs):
    done = subprocess.run([programs / "decoders", "40000", "1"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    taken, tried = map(int, re.findall(r"\d+", done.stdout))
    assert 0 < taken < tried


def transcoded(programs, text):
    """What the engine takes some JSON for; None if it refuses it."""
    done = subprocess.run([programs / "decoders", "json"], input=text.encode(), capture_output=True, check=False)
    assert done.returncode == 0 or done.stderr.startswith(b"no JSON at byte"), done.stderr
    return msgspec.msgpack.decode(done.stdout) if done.returncode == 0 else None


def test_the_engine_takes_json_for_what_python_has_written(programs):
    values = {
        "texts": ["\U0001f600", "\u00e9\uffff", "a\ud7ff\ue000b", '"\\\n'],
        "numbers": [0, -1, 2**63 - 1, -(2**63), 2**63, 2**64 - 1, 0.1, -2.5e-3, 1e300],
    }
    assert transcoded(programs, json.dumps(values)) == values


@pytest.mark.parametrize(
    "text",
    [
        r'"\ud83d"', r'"\ud83d!"', r'"\ud83d\u0041"', r'"\ude00"', r'"\u+123"', r'"\u 12f"', r'"\u0x1f"',
        "18446744073709551616", "-9223372036854775809", "1e999", "+1", "+1.5", "1.5.2", "-", "1-2",
    ],
)  # fmt: skip
def test_what_is_no_json_or_would_be_another_number_is_refused(programs, text):
    assert transcoded(programs, text) is None
