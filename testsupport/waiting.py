"""Waiting for states. A bound ends a hang; it is no measure of speed."""

from bbflow.host import waiting

PATIENCE_S = 300.0


def until(condition, what="it never came to that", poll_s=0.005, of=None):
    """Wait until something holds, before a process ends if it is said `of` which; return its value."""

    def said():
        return what() if callable(what) else what

    def look():
        assert of is None or of.poll() is None, f"{said()}: the process has ended"
        return condition()

    value = waiting.until(look, PATIENCE_S, poll_s)
    assert value, f"{said()} (waited for {PATIENCE_S:.0f} s)"
    return value
