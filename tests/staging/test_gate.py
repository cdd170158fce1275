"""The gate that every chunk passes."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bbflow.staging.gate import (
    LEAST_CHUNK_BYTES,
    MOST_CHUNK_BYTES,
    PAUSE_S,
    Closed,
    Decision,
    Gate,
    next_chunk_bytes,
    next_rate,
)
from testsupport.clocks import Clock
from testsupport.waiting import until

KiB, MiB = 1 << 10, 1 << 20


@pytest.fixture
def crowd():
    """Start threads that each pass a gate with some chunks; `crowd.passed` are their names in order."""
    threads = []

    class Crowd:
        def __init__(self):
            self.passed = []

        def send(self, gate, name, chunks=1, size_bytes=10, rank=None):
            def go():
                for _ in range(chunks):
                    try:
                        with gate.chunk(size_bytes, rank):
                            self.passed.append(name)
                    except Closed:
                        self.passed.append("closed")

            threads.append(threading.Thread(target=go, daemon=True))
            threads[-1].start()

    yield Crowd()
    for thread in threads:
        thread.join(300)
        assert not thread.is_alive()


def test_nothing_passes_a_hold_and_all_pass_after_it(crowd):
    gate = Gate(4)
    gate.apply(Decision(hold=True))
    for name in range(6):
        crowd.send(gate, name)
    until(lambda: gate.waiting == 6)
    assert crowd.passed == []
    assert gate.passed_bytes == 0
    gate.apply(Decision())
    until(lambda: len(crowd.passed) == 6)
    assert gate.passed_bytes == 60


def test_no_more_chunks_are_under_way_than_there_are_fetchers_and_their_number_may_change():
    gate = Gate(3)
    inside, under_way, most, go_on = [], set(), [], threading.Event()

    def work():
        with gate.chunk(1):
            inside.append(1)
            under_way.add(threading.get_ident())
            most.append(len(under_way))
            go_on.wait(300)
            under_way.discard(threading.get_ident())

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    until(lambda: len(inside) == 3)
    until(lambda: gate.waiting == 5)
    assert len(inside) == 3
    gate.apply(Decision(fetchers=5))
    until(lambda: len(most) == 5)
    go_on.set()
    for thread in threads:
        thread.join()
    assert max(most) == 5


def test_a_scaled_down_gate_serves_the_transfer_that_came_first(crowd):
    gate = Gate(8)
    gate.apply(Decision(hold=True))
    with gate.transfer(1):
        with gate.transfer(0):
            crowd.send(gate, "second", 3, rank=1)
            until(lambda: gate.waiting == 1)
            crowd.send(gate, "first", 3, rank=0)
            until(lambda: gate.waiting == 2)
            gate.apply(Decision(fetchers=1))
            until(lambda: len(crowd.passed) == 3 and gate.waiting == 1)
            assert crowd.passed == ["first"] * 3
        until(lambda: len(crowd.passed) == 6)


def test_a_chunk_that_cannot_end_before_the_predicted_phase_does_not_begin(crowd):
    clock = Clock()
    gate = Gate(1, clock)
    gate.apply(Decision(stop_s=clock.now_s + PAUSE_S / 2))
    crowd.send(gate, "late")
    until(lambda: gate.waiting == 1)
    assert crowd.passed == []
    gate.apply(Decision(stop_s=clock.now_s + 2 * PAUSE_S))
    until(lambda: crowd.passed == ["late"])


def test_a_pace_spaces_chunks_and_a_new_pace_holds_at_once(crowd):
    clock = Clock()
    gate = Gate(8, clock)
    gate.apply(Decision(bytes_per_s=100))
    crowd.send(gate, "slow", chunks=3, size_bytes=1000)
    until(lambda: crowd.passed and gate.waiting == 1)
    assert len(crowd.passed) == 1, "the second is due in 10 s"
    clock.now_s += 10
    gate.apply(Decision(bytes_per_s=100, reason="look again"))
    until(lambda: len(crowd.passed) == 2)
    gate.apply(Decision(bytes_per_s=1e9))
    until(lambda: len(crowd.passed) == 3)


def test_a_closed_gate_turns_everybody_away(crowd):
    gate = Gate(1)
    gate.apply(Decision(hold=True))
    crowd.send(gate, "waiting")
    gate.close()
    until(lambda: crowd.passed == ["closed"])
    with pytest.raises(Closed), gate.chunk(1):
        pass


@given(st.floats(1e3, 1e11), st.one_of(st.none(), st.floats(1e3, 1e11)))
def test_a_chunk_takes_no_longer_than_a_pause_may_unless_it_is_the_least(rate, pace):
    size_bytes = next_chunk_bytes(rate, pace)
    assert LEAST_CHUNK_BYTES <= size_bytes <= MOST_CHUNK_BYTES
    assert size_bytes == LEAST_CHUNK_BYTES or size_bytes / rate <= PAUSE_S


@given(st.floats(1e5, 1e9), st.floats(0, 0.1))
def test_the_rate_is_found_within_a_few_chunks_whatever_the_latency(true_rate, latency_s):
    rate = 0.0
    for _ in range(60):
        size_bytes = next_chunk_bytes(rate, None)
        rate = next_rate(rate, size_bytes, latency_s + size_bytes / true_rate, latency_s)
    assert 0.4 * true_rate <= rate <= 12 * true_rate
    if rate > true_rate:  # a short chunk beside a long latency tells little, but then it is short
        assert size_bytes / true_rate <= max(PAUSE_S, latency_s / 5) or size_bytes == LEAST_CHUNK_BYTES


def test_a_request_without_data_is_the_latency_and_no_rate():
    assert next_rate(1e6, 0, 0.1, 0.1) == 1e6
    assert next_rate(1e6, 100, 0.0, 0.1) == 1e6
