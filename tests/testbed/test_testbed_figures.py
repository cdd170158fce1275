import math

import pytest

from benchmarks.testbed.experiment import (
    DENSE,
    POLICIES,
    QUIET,
    SPARSE,
    Run,
    phases_within_s,
    rotated,
    undisturbed_s,
)
from benchmarks.testbed.job import Job, Outcome
from benchmarks.testbed.measuring import NAMES
from benchmarks.testbed.picture import draw
from benchmarks.testbed.results import auto_to_better, figures, rows


def run(policy, map_s, read_s, phases_s=(), alone_s=(), traffic=SPARSE.name):
    return Run(traffic, policy, 2, 5, Outcome(100.0, 100.0 + map_s, (read_s,) * 20), phases_s, alone_s)


def repetition(naive_s, full_s, slow, alone_s=1.0):
    phases_s = (alone_s * slow,) * 4
    return [
        run("naive", naive_s, 2.0, (2 * alone_s,), (alone_s,)),
        run("full-delay", full_s, 0.5, phases_s, (alone_s,)),
    ]


def test_every_policy_comes_first_once():
    orders = [rotated(POLICIES, number) for number in range(len(POLICIES))]
    assert {order[0] for order in orders} == set(POLICIES)
    assert all(sorted(order) == sorted(POLICIES) for order in orders)


def test_a_phase_belongs_to_the_run_in_which_its_middle_lies():
    phases = [(9.0, 10.5), (9.5, 11.0), (12.0, 14.0), (19.5, 20.4), (19.8, 20.4)]
    assert phases_within_s(phases, (10.0, 20.0)) == pytest.approx((1.5, 2.0, 0.9))


def test_a_phase_alone_touches_no_run():
    phases = [(0.0, 1.0), (4.0, 5.0), (4.9, 6.0), (7.0, 8.5), (9.5, 10.0)]
    assert undisturbed_s(phases, [(5.0, 7.0), (8.0, 9.0)]) == pytest.approx((1.0, 1.0, 0.5))


def test_ratios_are_taken_within_a_repetition_and_medians_over_them():
    repetitions = [repetition(20, 10, 1.02), repetition(40, 12, 1.01, alone_s=3.0), repetition(20, 16, 1.5)]
    naive, full = figures(repetitions)
    assert (naive.map_ratio, naive.phase_ratio) == (1.0, 2.0)
    assert full.map_s == pytest.approx(12)
    assert full.map_ratio == pytest.approx(0.5)
    assert full.map_spread_s == pytest.approx((10, 16))
    assert full.read_ratio == pytest.approx(0.25)
    assert full.phase_ratio == pytest.approx(1.02)
    assert full.phases == 12


def test_auto_is_compared_with_the_better_one_of_its_own_repetition():
    repetitions = [
        [
            run(policy, map_s, 1.0, (1.0,), (1.0,))
            for policy, map_s in (("full-delay", full_s), ("partial-delay", partial_s), ("auto", auto_s))
        ]
        for full_s, partial_s, auto_s in ((10, 12, 11), (20, 16, 16), (30, 40, 27))
    ]
    assert auto_to_better(repetitions) == pytest.approx({SPARSE.name: 1.0})


def test_runs_beside_no_traffic_have_no_phases():
    quiet = [run("naive", 20, 2.0, traffic=QUIET), run("no-action", 11, 0.4, traffic=QUIET)]
    measured = figures([quiet])
    assert [figure.phase_ratio for figure in measured] == [None, None]
    assert not any("HPC phase" in row.name for row in rows(measured, NAMES))


def test_each_figure_becomes_rows_with_ratios():
    named = {row.name: row for row in rows(figures([repetition(20, 10, 1.02)]), NAMES)}
    row = named["sparse phases: prefetch, FullDelay: HPC phase (4)"]
    assert math.isclose(row.ratio, 1.02)
    assert named["sparse phases: prefetch, FullDelay: application time"].ratio == 0.5


def test_the_picture_is_drawn(tmp_path):
    draw(figures([repetition(20, 10, 1.02)]), NAMES, 2, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_the_picture_and_the_schedule_know_the_same_policies():
    assert tuple(NAMES) == POLICIES


def test_the_bb_has_room_for_two_waves_of_the_five():
    job = Job("naive", 2, "bb", "board")
    assert len(set(job.keys)) == 5 * job.slots
    assert job.capacity_bytes == 2 * job.slots * job.input_bytes


def test_dense_phases_leave_less_time_between_them():
    assert DENSE.pause_s < SPARSE.pause_s
