"""Transfer jobs that share what a policy allows."""

from bbflow_pegasus.crowd import LEASE_S, LOOK_S, Crowd, Together, Turn, portion
from hypothesis import given
from hypothesis import strategies as st

from bbflow.phases import Board, Phase
from bbflow.staging import Decision, Situation, parse_policy

PHASE = Phase("ocean-model", "pfs", 0.0)
JOBS = st.integers(1, 12)


@given(st.integers(0, 20), JOBS)
def test_all_parts_together_are_the_fetchers_that_a_policy_allows(fetchers, jobs):
    parts = [portion(Decision(fetchers=fetchers, hold=fetchers == 0), number, jobs) for number in range(jobs)]
    assert sum(part.fetchers or 0 for part in parts if not part.hold) == fetchers


@given(st.floats(1e3, 1e9), st.one_of(st.none(), st.integers(1, 20)), JOBS)
def test_all_parts_together_are_the_pace_that_a_policy_allows(pace, fetchers, jobs):
    parts = [portion(Decision(bytes_per_s=pace, fetchers=fetchers), number, jobs) for number in range(jobs)]
    total = sum(part.bytes_per_s for part in parts if not part.hold)
    assert abs(total - pace) <= 1e-9 * pace


def test_each_job_takes_its_place_among_those_that_are_there(tmp_path):
    now_s = 1000.0
    with Crowd(tmp_path, lambda: now_s) as one:
        assert one.place() == Turn(0, 1)
        now_s += LOOK_S
        with Crowd(tmp_path, lambda: now_s) as two:
            assert (one.place(), two.place()) == (Turn(0, 2), Turn(1, 2))
            now_s += LEASE_S / 2
            assert (one.place(), two.place()) == (Turn(0, 2), Turn(1, 2)), "an announcement is renewed"
            now_s += LEASE_S / 2 + LOOK_S
            assert two.place() == Turn(1, 2)
        now_s += LOOK_S
        assert one.place() == Turn(0, 1)
    assert not Board(tmp_path).read()


def test_a_job_that_died_is_forgotten_after_its_lease(tmp_path):
    now_s = 1000.0
    with Crowd(tmp_path, lambda: now_s) as one:
        now_s += 1
        Crowd(tmp_path, lambda: now_s).__enter__()
        now_s += LOOK_S
        assert one.place() == Turn(0, 2)
        for _ in range(4):
            now_s += LEASE_S / 3
            one.place()
        assert one.place() == Turn(0, 1)


def test_a_later_wave_waits_for_the_earlier_ones_of_its_run_and_takes_no_share(tmp_path):
    now_s = 1000.0
    clock = lambda: now_s  # noqa: E731
    with Crowd(tmp_path, clock, "run1", 3) as later, Crowd(tmp_path, clock, "run2", 7) as other:
        with Crowd(tmp_path, clock, "run1", 2) as earlier:
            assert {earlier.place(), other.place()} == {Turn(0, 2), Turn(1, 2)}
            assert later.place() == Turn(after=2)
            waiting = Together(policy=parse_policy("no-action"), place=later.place)
            assert waiting.decide(Situation(now_s=now_s)).hold
        now_s += LOOK_S
        assert later.place().after is None
        assert not waiting.decide(Situation(now_s=now_s)).hold


def test_jobs_together_keep_the_limit_that_one_would_keep():
    situation = Situation(now_s=1.0, phases=(PHASE,), peak_bytes_per_s=50e6, remaining_bytes=1000)
    paced = parse_policy("partial-delay:limit=0.1")
    alone = paced.decide(Situation(now_s=1.0, phases=(PHASE,), peak_bytes_per_s=100e6))
    shares = [Together(policy=paced, place=lambda number=n: Turn(number, 2)).decide(situation) for n in range(2)]
    assert [share.hold for share in shares] == [False, True], "one stream in a phase, for all jobs together"
    assert shares[0].bytes_per_s == alone.bytes_per_s
    held = Together(policy=parse_policy("full-delay"), place=lambda: Turn(1, 2)).decide(situation)
    assert held.hold
