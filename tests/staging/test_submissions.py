"""Which submitted tasks can be planned: against a plain description of the rule, in any order of answers."""

from hypothesis import given
from hypothesis import strategies as st

from bbflow.staging.files import File, Task
from bbflow.staging.submissions import Submission, Submissions

URLS = st.sets(st.sampled_from("abcd"), max_size=3)
TASKS = st.lists(st.tuples(URLS, URLS, URLS), max_size=8)


def submission(order, inputs, outputs, unknown):
    task = Task(f"t{order}", tuple(map(File, sorted(inputs))), tuple(map(File, sorted(outputs))))
    return Submission(task, order, unknown & inputs)


def may_be_planned(tasks, planned, answered):
    """The rule, as it stands in the docs: go through all that wait, in the program's order."""
    made, used = set(), set()
    for order, (inputs, outputs, unknown) in enumerate(tasks):
        if order in planned:
            continue
        if unknown & inputs <= answered[order] and not (inputs | outputs) & made and not outputs & used:
            yield order
        else:
            made, used = made | outputs, used | inputs


@given(TASKS, st.lists(st.sampled_from("abcd"), max_size=8), st.integers(0, 8))
def test_a_task_is_planned_once_its_sizes_are_known_and_no_earlier_one_that_waits_shares_what_is_made(
    tasks, answers, later
):
    submissions, planned, answered = Submissions(), [], [set() for _ in tasks]
    known = []

    def note(found):
        planned.extend(one.order for one in found)

    steps = [*enumerate(tasks)]
    steps[later:later] = answers
    for step in [*steps, *"abcd"]:
        before = list(planned)
        if isinstance(step, str):
            for order in known:
                answered[order].add(step)
            allowed = set(may_be_planned(tasks[: len(known)], before, answered))
            note(submissions.answered(step, 1))
        else:
            known.append(step[0])
            allowed = set(may_be_planned(tasks[: len(known)], before, answered))
            note(submissions.add(submission(step[0], *step[1])))
        assert set(planned[len(before) :]) == allowed
    assert sorted(planned) == list(range(len(tasks)))
