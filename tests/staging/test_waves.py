"""The plan of waves: pure, so that every order of events can be tried."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bbflow.errors import CapacityError, ConfigError, SourceError
from bbflow.staging.actions import Check, Evict, Ready, Refused, Stage
from bbflow.staging.files import File, Task
from bbflow.staging.waves import Waves

MISSING = SourceError("it isn't there")


def task(key, *names, outputs=(), size_bytes=10):
    inputs = tuple(File(name, size_bytes) for name in names)
    return Task(key, inputs, tuple(File(name, size_bytes) for name in outputs))


def staged_urls(actions):
    return [action.file.url for action in actions if isinstance(action, Stage)]


def ready_keys(actions):
    return [action.key for action in actions if isinstance(action, Ready)]


def test_the_next_wave_is_staged_while_the_first_computes_but_no_further_one():
    waves = Waves(slots=2, capacity_bytes=1000)
    actions = [action for n in range(6) for action in waves.add(task(f"t{n}", f"f{n}"))]
    assert staged_urls(actions) == ["f0", "f1", "f2", "f3"]
    assert [action.wave for action in actions] == [0, 0, 1, 1]
    assert ready_keys(waves.staged("f0")) == ["t0"]
    assert staged_urls(waves.final("t0")) == ["f4"]


def test_without_lookahead_only_the_wave_that_computes_is_staged():
    waves = Waves(slots=2, capacity_bytes=1000, lookahead=0)
    assert staged_urls(action for n in range(6) for action in waves.add(task(f"t{n}", f"f{n}"))) == ["f0", "f1"]


def test_a_set_is_admitted_whole_or_not_at_all():
    waves = Waves(slots=2, capacity_bytes=30)
    waves.add(task("first", "a", "b"))
    assert waves.add(task("second", "c", "d")) == []
    waves.staged("a")
    waves.staged("b")
    assert staged_urls(waves.final("first")) == ["c", "d"]


def test_a_later_task_does_not_overtake_one_that_waits_for_room():
    waves = Waves(slots=4, capacity_bytes=30)
    waves.add(task("first", "a", "b"))
    waves.add(task("large", "c", "d"))
    assert waves.add(task("small", "e")) == []


def test_a_shared_file_is_staged_once_and_outlives_its_first_user():
    waves = Waves(slots=1, capacity_bytes=30)
    assert staged_urls(waves.add(task("first", "shared", "a"))) == ["shared", "a"]
    assert staged_urls(waves.add(task("second", "shared", "b"))) == ["b"]
    waves.add(task("third", "shared", "c"))
    for url in ("shared", "a", "b"):
        waves.staged(url)
    assert waves.final("first") == [Evict("a"), Stage(File("c", 10), 2)]


def test_room_that_shrinks_is_left_by_what_nobody_wants_and_taken_again_when_it_grows():
    waves = Waves(slots=1, capacity_bytes=30)
    for key in ("first", "second"):
        waves.add(task(key, key))
        waves.staged(key)
    waves.final("first")
    assert waves.resize(15) == [Evict("first")]
    assert waves.add(task("third", "c")) == []
    assert waves.resize(10) == [], "what is in use stays"
    assert staged_urls(waves.resize(20)) == ["c"]


def test_what_nobody_uses_stays_until_its_room_is_needed():
    waves = Waves(slots=1, capacity_bytes=20)
    waves.add(task("first", "a"))
    waves.staged("a")
    assert waves.final("first") == []
    assert waves.add(task("late", "a")) == [Check(File("a", 10), 1)], "meanwhile its source may have changed"
    assert waves.staged("a") == [Ready("late")]


def test_what_is_expected_goes_last_and_the_farthest_first():
    waves = Waves(slots=1, capacity_bytes=30)
    for name in "abc":
        waves.add(task(name, name))
        waves.staged(name)
        waves.final(name)
    waves.expect("xbac")
    assert waves.add(task("x", "x")) == [Evict("c"), Stage(File("x", 10), 3)]
    waves.staged("x")
    waves.final("x")
    assert waves.add(task("y", "y")) == [Evict("x"), Stage(File("y", 10), 4)], "its use is over"


def test_a_wanted_file_goes_only_when_nothing_runs_and_the_farthest_use_goes_first():
    waves = Waves(slots=1, capacity_bytes=30)
    waves.add(task("first", "soon", "far"))
    for url in ("soon", "far"):
        waves.staged(url)
    waves.add(task("big", "x", "y"))
    waves.add(task("next", "soon"))
    waves.add(task("last", "far"))
    staged = [Stage(File("x", 10), 1), Stage(File("y", 10), 1)]
    assert waves.final("first") == [Evict("far"), *staged, Ready("next")]


def test_a_set_above_the_capacity_is_an_error_that_names_it():
    waves = Waves(slots=1, capacity_bytes=15)
    (refused,) = waves.add(task("large", "a", "b"))
    assert isinstance(refused.error, CapacityError)
    assert "'large' needs 20 B" in str(refused.error)
    assert "which has 15 B" in str(refused.error)
    assert staged_urls(waves.add(task("small", "a"))) == ["a"]


def test_a_set_above_the_capacity_is_read_directly_if_so_wished():
    waves = Waves(slots=1, capacity_bytes=15, oversize="direct")
    assert waves.add(task("large", "a", "b", outputs=["c"])) == [Ready("large", frozenset("abc"))]
    assert waves.used_bytes == 0


def test_a_direct_task_finds_on_the_burst_buffer_what_lies_only_there():
    waves = Waves(slots=1, capacity_bytes=15, oversize="direct")
    waves.add(task("maker", outputs=["made"]))
    waves.made(File("made", 10))
    waves.final("maker")
    assert waves.add(task("large", "made", "b")) == [Ready("large", frozenset("b"))]


def test_a_file_that_cannot_be_had_refuses_those_who_wait_for_it_and_the_next_user_tries_again():
    waves = Waves(slots=2, capacity_bytes=100)
    waves.add(task("first", "bad", "good"))
    waves.add(task("second", "bad"))
    assert waves.failed("bad", MISSING) == [Refused("first", MISSING), Refused("second", MISSING)]
    assert staged_urls(waves.add(task("third", "bad"))) == ["bad"]


def test_an_output_holds_its_room_and_its_user_waits_until_it_is_made():
    waves = Waves(slots=1, capacity_bytes=20)
    assert waves.add(task("maker", outputs=["made"])) == [Ready("maker")]
    assert waves.used_bytes == 10
    assert waves.add(Task("user", (File("made"),))) == []
    assert waves.made(File("made", 12)) == [Ready("user")]
    assert waves.used_bytes == 12


def test_a_made_file_stays_until_it_is_released():
    waves = Waves(slots=1, capacity_bytes=20)
    waves.add(task("maker", outputs=["made"]))
    waves.made(File("made", 15))
    waves.final("maker")
    (refused,) = waves.add(task("other", "a"))
    assert "15 B are held by files that tasks made" in str(refused.error)
    waves.release("made")
    assert waves.add(task("again", "a")) == [Evict("made"), Stage(File("a", 10), 2)]


def test_users_of_an_output_that_was_never_made_are_refused():
    waves = Waves(slots=2, capacity_bytes=100)
    waves.add(task("maker", outputs=["made"]))
    waves.add(Task("user", (File("made"),)))
    (refused,) = waves.final("maker")
    assert refused.key == "user"
    assert "'maker' ended without making made" in str(refused.error)


def test_a_task_that_is_not_wanted_any_more_frees_its_place():
    waves = Waves(slots=1, capacity_bytes=10)
    waves.add(task("first", "a"))
    waves.add(task("second", "b"))
    waves.final("second")
    waves.staged("a")
    assert waves.add(task("second", "c")) == []
    assert waves.final("first") == [Evict("a"), Stage(File("c", 10), 2)]


def test_what_an_earlier_life_left_takes_room_and_is_checked_before_use():
    waves = Waves(slots=1, capacity_bytes=20)
    assert waves.found(File("left", 10)) == []
    assert waves.found(File("too-much", 11)) == [Evict("too-much")]
    assert waves.add(task("user", "left")) == [Stage(File("left", 10), 0)]
    assert waves.used_bytes == 10


def test_a_copy_that_others_hold_is_not_given_to_a_task_with_another_checksum():
    waves = Waves(slots=2, capacity_bytes=1000)
    waves.found(File("f", 10))
    first, same, other = (
        Task(key, (File("f", 10, of),)) for key, of in (("a", "md5:1"), ("b", "md5:1"), ("c", "md5:2"))
    )
    waves.add(first)
    assert ready_keys(waves.staged("f")) == ["a"]
    assert ready_keys(waves.add(same)) == ["b"]
    (refused,) = waves.add(other)
    assert isinstance(refused, Refused)
    assert "give all the same checksum" in str(refused.error)


def test_what_an_earlier_life_left_in_another_size_goes():
    waves = Waves(slots=1, capacity_bytes=20)
    waves.found(File("left", 12))
    assert waves.add(task("user", "left")) == [Evict("left"), Stage(File("left", 10), 0)]


def test_a_task_may_not_overwrite_what_another_reads():
    waves = Waves(slots=2, capacity_bytes=100)
    waves.add(task("reader", "a"))
    (refused,) = waves.add(task("writer", outputs=["a"]))
    assert isinstance(refused.error, ConfigError)
    (refused,) = waves.add(task("both", "b", outputs=["b"]))
    assert "as input and as output" in str(refused.error)


def test_two_tasks_of_one_name_are_refused():
    waves = Waves(slots=1, capacity_bytes=10)
    waves.add(task("same", "a"))
    with pytest.raises(ConfigError, match="'same' exists already"):
        waves.add(task("same", "b"))


@pytest.mark.parametrize("wrong", [{"slots": 0}, {"capacity_bytes": 0}, {"lookahead": -1}, {"oversize": "directt"}])
def test_settings_out_of_range_are_refused(wrong):
    with pytest.raises(ConfigError):
        Waves(**({"slots": 1, "capacity_bytes": 1} | wrong))


class World:
    """Carries a plan's actions out, and checks all the while that what must never happen doesn't."""

    def __init__(self, draw, waves, tasks):
        self.draw, self.waves, self.tasks = draw, waves, {t.key: t for t in tasks}
        self.sizes, self.coming, self.running, self.outcome = {}, set(), set(), {}
        self.added = []

    def apply(self, actions):
        for action in actions:
            match action:
                case Stage(file, _):
                    assert file.url not in self.sizes, "staged twice in one residency"
                    self.sizes[file.url] = file.size_bytes
                    self.coming.add(file.url)
                case Check(file, _):
                    assert self.sizes[file.url] == file.size_bytes
                    assert file.url not in self.coming
                    self.coming.add(file.url)
                case Evict(url):
                    assert url not in self.coming
                    assert not any(url in self.urls(key) for key in self.running), "evicted while it is used"
                    del self.sizes[url]
                case Ready(key, direct):
                    assert key not in self.outcome
                    inputs = {file.url for file in self.tasks[key].inputs}
                    assert inputs - direct <= self.sizes.keys() - self.coming, "ready without its files"
                    self.sizes |= {f.url: f.size_bytes for f in self.tasks[key].outputs if f.url not in direct}
                    self.running.add(key)
                    self.outcome[key] = "ready"
                case Refused(key, _):
                    assert key not in self.outcome
                    self.outcome[key] = "refused"
            assert sum(self.sizes.values()) <= self.waves.capacity_bytes, "above the capacity"
        assert self.waves.used_bytes <= self.waves.capacity_bytes

    def urls(self, key):
        return {file.url for file in (*self.tasks[key].inputs, *self.tasks[key].outputs)}

    def step(self, waiting):
        """Do one thing that can happen; return whether there was any."""
        choices = [("add", waiting[0])] if waiting else []
        choices += [("staged", url) for url in sorted(self.coming)]
        choices += [("final", key) for key in sorted(self.running)]
        if not choices:
            return False
        kind, what = self.draw(st.sampled_from(choices))
        if kind == "add":
            self.apply(self.waves.add(waiting.pop(0)))
        elif kind == "staged":
            self.arrive(what)
        else:
            self.finish(what)
        return True

    def arrive(self, url):
        self.coming.discard(url)
        if self.draw(st.integers(0, 9)) == 0:
            del self.sizes[url]
            self.apply(self.waves.failed(url, MISSING))
        else:
            self.apply(self.waves.staged(url))

    def finish(self, key):
        for file in self.tasks[key].outputs:
            if file.url in self.sizes:
                self.apply(self.waves.made(file))
        self.running.discard(key)
        self.apply(self.waves.final(key))
        for file in self.tasks[key].outputs:
            self.apply(self.waves.release(file.url))


@st.composite
def programs(draw):
    sizes = draw(st.lists(st.integers(0, 40), min_size=1, max_size=8))
    files = [File(f"f{n}", size) for n, size in enumerate(sizes)]
    tasks = []
    for n in range(draw(st.integers(1, 12))):
        inputs = draw(st.lists(st.sampled_from(files), max_size=4))
        outputs = (File(f"o{n}", draw(st.integers(0, 20))),) if draw(st.booleans()) else ()
        made = [output for earlier in tasks for output in earlier.outputs]
        inputs += draw(st.lists(st.sampled_from(made), max_size=1)) if made else []
        tasks.append(Task(f"t{n}", tuple(inputs), outputs))
    return tasks


@given(
    st.data(),
    programs(),
    st.integers(1, 4),
    st.integers(1, 120),
    st.integers(0, 2),
    st.sampled_from(["error", "direct"]),
)
def test_any_program_in_any_order_of_events_stages_once_keeps_the_capacity_and_ends(
    data, tasks, slots, capacity_bytes, lookahead, oversize
):
    world = World(data.draw, Waves(slots, capacity_bytes, lookahead, oversize), tasks)
    waiting = list(tasks)
    while world.step(waiting):
        pass
    assert world.outcome.keys() == {t.key for t in tasks}, "a task neither ran nor was refused"
    assert all(
        t.set_bytes <= capacity_bytes or oversize == "direct" or world.outcome[t.key] == "refused" for t in tasks
    )


@given(st.data(), programs(), st.integers(1, 4), st.integers(0, 2))
def test_with_room_for_everything_each_file_is_staged_exactly_once(data, tasks, slots, lookahead):
    tasks = [Task(t.key, tuple(f for f in t.inputs if f.url.startswith("f"))) for t in tasks]
    waves = Waves(slots, 1000, lookahead)
    staged, coming, running, waiting = [], [], [], list(tasks)

    def apply(actions):
        for action in actions:
            assert not isinstance(action, Evict | Refused)
            if isinstance(action, Stage | Check):
                coming.append(action.file.url)
            if not isinstance(action, Check):
                (staged if isinstance(action, Stage) else running).append(action)

    while waiting or coming or running:
        choice = data.draw(
            st.sampled_from([name for name, left in zip("acr", (waiting, coming, running), strict=True) if left])
        )
        if choice == "a":
            apply(waves.add(waiting.pop(0)))
        elif choice == "c":
            apply(waves.staged(coming.pop(data.draw(st.integers(0, len(coming) - 1)))))
        else:
            apply(waves.final(running.pop(data.draw(st.integers(0, len(running) - 1))).key))
    urls = staged_urls(staged)
    assert len(urls) == len(set(urls))
    assert set(urls) == {file.url for t in tasks for file in t.inputs}


def calls_of(action):
    """Count the function calls that something takes: what grows with the square of its size shows in them."""
    count = 0

    def note(frame, event, _):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
    return count


def large_tasks(files):
    """Two tasks of many files each, of which the second waits for the first one's room."""
    waves = Waves(slots=1, capacity_bytes=10 * files)
    first, second = (task(key, *(f"{key}{n}" for n in range(files))) for key in ("a", "b"))
    urls = staged_urls(waves.add(first) + waves.add(second))
    assert [ready_keys(waves.staged(url)) for url in urls][-1] == ["a"]
    assert len(staged_urls(waves.final("a"))) == files


def many_tasks(count):
    """As many tasks as there are files, submitted before the first runs."""
    waves = Waves(slots=4, capacity_bytes=200)
    actions = [action for n in range(count) for action in waves.add(task(f"t{n}", f"f{n}", "shared"))]
    ended = 0
    while actions:
        match actions.pop(0):
            case Stage(file) | Check(file):
                actions += waves.staged(file.url)
            case Ready(key):
                ended += 1
                actions += waves.final(key)
    assert ended == count


@pytest.mark.parametrize("program", [large_tasks, many_tasks])
def test_planning_takes_work_in_proportion_to_the_files(program):
    assert calls_of(lambda: program(2000)) < 2.2 * calls_of(lambda: program(1000))
