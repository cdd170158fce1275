"""Waves of a whole workflow: what holds whichever of its tasks ends first."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bbflow.errors import CapacityError, ConfigError
from bbflow.staging.ahead import plan_ahead
from bbflow.staging.files import File, Task


def task(key, *names, outputs=(), size_bytes=10):
    return Task(key, tuple(File(n, size_bytes) for n in names), tuple(File(n, size_bytes) for n in outputs))


def fan(count):
    return [task(f"t{n}", f"f{n}") for n in range(count)]


def test_a_wave_has_as_many_tasks_as_slots_and_the_next_may_come_while_it_computes():
    waves = plan_ahead(fan(6), {}, slots=2, capacity_bytes=1000)
    assert [wave.tasks for wave in waves] == [("t0", "t1"), ("t2", "t3"), ("t4", "t5")]
    assert [wave.over for wave in waves] == [0, 0, 1]
    assert waves[0].staged == (("f0",), ("f1",))


def test_names_with_numbers_come_in_the_order_of_the_numbers():
    waves = plan_ahead(fan(12)[::-1], {}, slots=12, capacity_bytes=1000)
    assert waves[0].tasks[-3:] == ("t9", "t10", "t11")


def test_little_room_makes_smaller_waves_that_still_come_ahead():
    waves = plan_ahead(fan(6), {}, slots=6, capacity_bytes=40)
    assert [len(wave.tasks) for wave in waves] == [2, 2, 2]
    assert [wave.over for wave in waves] == [0, 0, 1]
    assert set(waves[2].gone) == {"f0", "f1"}


def test_room_for_one_task_at_a_time_is_enough():
    waves = plan_ahead(fan(4), {}, slots=4, capacity_bytes=10)
    assert [(wave.tasks, wave.over, wave.gone) for wave in waves] == [
        (("t0",), 0, ()),
        (("t1",), 1, ("f0",)),
        (("t2",), 2, ("f1",)),
        (("t3",), 3, ("f2",)),
    ]


def test_a_shared_file_comes_once_with_its_first_user_and_goes_after_its_last():
    tasks = [task(f"t{n}", "header", f"f{n}") for n in range(4)]
    waves = plan_ahead(tasks, {}, slots=1, capacity_bytes=30)
    assert [files for wave in waves for files in wave.staged] == [("header", "f0"), ("f1",), ("f2",), ("f3",)]
    assert all("header" not in wave.gone for wave in waves)


def test_a_file_that_has_no_room_between_its_users_comes_again():
    tasks = [task("a", "x"), task("b", "y", outputs=["made"], size_bytes=5), task("c", "x")]
    waves = plan_ahead(tasks, {"b": ["a"], "c": ["b"]}, slots=1, capacity_bytes=20)
    assert [wave.staged for wave in waves] == [(("x",),), (("y",),), ((),)]
    waves = plan_ahead([task("a", "x"), task("b", "y"), task("c", "x")], {"b": ["a"], "c": ["b"]}, 1, 10)
    assert [wave.staged for wave in waves] == [(("x",),), (("y",),), (("x",),)]
    assert [wave.gone for wave in waves] == [(), ("x",), ("y",)]


def test_a_wave_has_one_dependency_level():
    tasks = [*fan(3), task("last", "g", outputs=["out"])]
    waves = plan_ahead(tasks, {"last": ["t0", "t1", "t2"]}, slots=8, capacity_bytes=1000)
    assert [(wave.level, wave.tasks) for wave in waves] == [(0, ("t0", "t1", "t2")), (1, ("last",))]


def test_who_makes_a_file_comes_before_who_reads_it_even_if_nobody_said_so():
    tasks = [task("a_reads", "made"), task("b_makes", "raw", outputs=["made"])]
    assert [wave.tasks for wave in plan_ahead(tasks, {}, 4, 1000)] == [("b_makes",), ("a_reads",)]


def test_chains_are_ended_one_by_one_if_levels_need_too_much_room():
    tasks = [t for n in "abc" for t in (task(f"{n}1", outputs=[f"{n}.big"]), task(f"{n}2", f"{n}.big"))]
    waves = plan_ahead(tasks, {}, slots=4, capacity_bytes=10)
    assert [wave.tasks[0] for wave in waves] == ["a1", "a2", "b1", "b2", "c1", "c2"]


def test_a_file_without_a_size_counts_as_nothing():
    tasks = [Task(f"t{n}", (File(f"f{n}"),)) for n in range(4)]
    assert [wave.tasks for wave in plan_ahead(tasks, {}, slots=2, capacity_bytes=1)] == [("t0", "t1"), ("t2", "t3")]


def test_a_task_that_has_no_room_at_all_is_named_with_both_numbers():
    with pytest.raises(CapacityError, match=r"'large' needs 20 B .* has 15 B"):
        plan_ahead([task("small", "s"), task("large", "l", "m")], {}, slots=1, capacity_bytes=15)


def test_numbers_that_look_alike_when_rounded_are_said_in_full():
    with pytest.raises(CapacityError, match=r"needs 100001 B .* has 100000 B"):
        plan_ahead([task("large", "l", size_bytes=100_001)], {}, slots=1, capacity_bytes=100_000)


def test_files_that_must_stay_for_others_are_named_when_they_leave_no_room():
    tasks = [task("a", outputs=["x"]), task("b", outputs=["y"]), task("both", "x", "y", size_bytes=1)]
    with pytest.raises(CapacityError, match=r"'b' needs 10 B .* has 15 B, of which 10 B"):
        plan_ahead(tasks, {}, slots=1, capacity_bytes=15)


def test_tasks_that_wait_for_each_other_are_an_error():
    with pytest.raises(ConfigError, match="wait for each other"):
        plan_ahead([task("a"), task("b")], {"a": ["b"], "b": ["a"]}, 1, 10)


@st.composite
def workflows(draw):
    """Return tasks with shared inputs, and the parents they wait for."""
    count = draw(st.integers(1, 14))
    sizes = {f"f{n}": draw(st.integers(1, 9)) for n in range(8)}
    tasks, parents = [], {}
    for n in range(count):
        names = draw(st.sets(st.sampled_from(sorted(sizes)), max_size=4))
        tasks.append(Task(f"t{n}", tuple(File(name, sizes[name]) for name in sorted(names))))
        parents[f"t{n}"] = draw(st.sets(st.sampled_from([f"t{p}" for p in range(n)]), max_size=3)) if n else set()
    return tasks, parents


@given(workflows(), st.integers(1, 5), st.integers(0, 2), st.integers(0, 20))
def test_down_to_the_largest_set_every_task_finds_its_files_and_room_is_never_exceeded(workflow, slots, ahead, spare):
    tasks, parents = workflow
    capacity_bytes = max(1, max(each.set_bytes for each in tasks) + spare)
    waves = plan_ahead(tasks, parents, slots, capacity_bytes, ahead)
    known = {each.key: each for each in tasks}
    sizes = {file.url: file.size_bytes for each in tasks for file in each.inputs}
    assert sorted(key for wave in waves for key in wave.tasks) == sorted(known)
    here = set()
    place = {key: number for number, wave in enumerate(waves) for key in wave.tasks}
    for number, wave in enumerate(waves):
        assert wave.over <= number
        here -= set(wave.gone)
        for key, staged in zip(wave.tasks, wave.staged, strict=True):
            assert not here & set(staged)
            here |= set(staged)
            assert {file.url for file in known[key].inputs} <= here
            assert all(place[parent] < number for parent in parents[key])
        assert sum(sizes[url] for url in here) <= capacity_bytes
        # What goes before a wave is only used again by those that stage it again.
        assert all(
            place[key] < wave.over or place[key] >= number
            for key in known
            for f in known[key].inputs
            if f.url in wave.gone
        )
