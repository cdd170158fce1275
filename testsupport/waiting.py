"""Waiting for states. A bound ends a hang; it is no measure of speed."""

import time

PATIENCE_S = 300.0


def until(condition, what="it never came to that", poll_s=0.005):
    """Wait until something holds; return its value."""
    end_s = time.monotonic() + PATIENCE_S
    while not (value := condition()):
        assert time.monotonic() < end_s, f"{what} (waited for {PATIENCE_S:.0f} s)"
        time.sleep(poll_s)
    return value
