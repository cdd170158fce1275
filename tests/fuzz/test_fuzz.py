"""Bounded runs; `make fuzz` goes on for as long as it is told, from other seeds."""

import inputs
import pytest

RUNS = {"frames": 3000, "payload": 3000, "handshake": 3000, "data": 3000, "conversation": 1200, "index": 1500}


@pytest.mark.parametrize("name", inputs.ALL)
def test_damaged_input_is_refused_and_breaks_nothing(name):
    for seed in range(RUNS[name]):
        try:
            inputs.run(name, seed)
        except BaseException as error:
            error.add_note(f"target {name!r}, seed {seed}")
            raise
