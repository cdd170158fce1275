"""A node's deadlines don't follow a clock that somebody sets."""

import time

import pytest

from bbflow.landing.server import steady_clock


@pytest.mark.parametrize("hours", [-5, 5])
def test_a_clock_that_is_set_makes_nobody_late(monkeypatch, hours):
    clock, set_s = steady_clock(), time.time() + hours * 3600
    before_s = clock()
    assert abs(before_s - time.time()) < 60
    monkeypatch.setattr(time, "time", lambda: set_s)
    assert 0 <= clock() - before_s < 60
