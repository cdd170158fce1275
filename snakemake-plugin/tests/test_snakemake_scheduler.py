"""Snakemake's own test of scheduler plugins, and the order in which jobs are selected."""

import logging

import pytest
from bbflow_snakemake.scheduler import fitting, slots_of
from snakemake_interface_scheduler_plugins.tests import DummyDAG, DummyJob, TestSchedulerBase
from snakemake_scheduler_plugin_bbflow import Scheduler


class TestOurs(TestSchedulerBase):
    __test__ = True

    def get_scheduler_cls(self):
        return Scheduler

    def get_scheduler_settings(self):
        return None


class Job(DummyJob):
    def __init__(self, name, cores=1, priority=0):
        super().__init__([], [name], {"_cores": cores, "_nodes": 1})
        self._priority = priority

    @property
    def priority(self):
        return self._priority


@pytest.fixture
def scheduler():
    return Scheduler(DummyDAG(), None, logging.getLogger(__name__))


def test_jobs_go_by_priority_then_by_when_they_became_ready_then_by_name(scheduler):
    a, b, c, late = Job("a"), Job("b"), Job("c", priority=1), Job("0")
    free = {"_cores": 2, "_nodes": 9}
    assert scheduler.select_jobs([b, c, a], [b, c, a, late], free, {}) == [c, a]
    assert scheduler.select_jobs([late, b], [b, late], free, {}) == [b, late]


def test_jobs_that_do_not_fit_let_smaller_ones_pass():
    jobs = [Job("a", 2), Job("b", 3), Job("c", 1)]
    assert list(fitting(jobs, {"_cores": 3, "_nodes": 9, "kind": "text"})) == [jobs[0], jobs[2]]


@pytest.mark.parametrize(
    ("cores", "free", "slots"),
    [([1] * 9, {"_cores": 4}, 4), ([4, 4], {"_cores": 8}, 2), ([1], {"_cores": 64}, 1), ([], {"_cores": 2}, 1),
     ([1] * 9, {"_cores": 2**63 - 1, "_nodes": 5}, 5)],
)  # fmt: skip
def test_slots_are_as_many_jobs_as_can_run(cores, free, slots):
    assert slots_of([Job(str(n), c) for n, c in enumerate(cores)], free) == slots
