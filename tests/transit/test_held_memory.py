"""A whole run stays within the memory that it said before its start: pools, states, and all its processes."""

import tempfile
from itertools import chain
from pathlib import Path

from benchmarks.memory import CASES, held


def test_a_run_of_p90_a_histogram_and_50_variables_holds_no_more_than_it_said():
    with tempfile.TemporaryDirectory() as name:  # a socket's path must be short
        found = held(Path(name), list(chain(*CASES.values())), points=1 << 13, steps=40)
    assert found.memory <= found.said_memory
    assert found.memory > found.said_memory / 2, "what was said isn't a bound"
    assert found.processes <= found.said_processes
    assert found.states > 1 << 26
