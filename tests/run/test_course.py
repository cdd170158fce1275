import os
import signal

import pytest

from bbflow.run.course import (
    INCOMPLETE,
    LONGEST_WAIT_S,
    STOP,
    TRIES,
    AskToStop,
    Course,
    Ended,
    Hurry,
    Interrupted,
    KeepsRun,
    Part,
    Say,
    SimulationEnded,
    Start,
    StopAsked,
    StopPart,
    StopSimulation,
    StreamForgotten,
)

KILLED = -signal.SIGKILL


def go(course, *events):
    """Take events one after the other; return the course and the last one's actions, but for what is said."""
    actions = ()
    for event in events:
        course, actions = course.after(event)
    return course, [action for action in actions if not isinstance(action, Say)]


@pytest.mark.parametrize("code", [0, INCOMPLETE])
def test_an_analysis_that_has_published_is_not_started_again(code):
    course, actions = go(Course(), Ended(code, 9))
    assert (course.part, course.keeping, course.failure, actions) == (Part.NONE, KeepsRun.RESULTS, "", [])


def test_a_killed_analysis_is_started_again_at_once():
    course, actions = go(Course(), Ended(KILLED, 4))
    assert (course.part, actions) == (Part.FOLD, [Start(Part.FOLD)])


def test_an_analysis_that_gets_further_may_be_killed_as_often_as_it_likes():
    course, actions = go(Course(), *(Ended(KILLED, step) for step in range(100)))
    assert (course.part, actions) == (Part.FOLD, [Start(Part.FOLD)])


@pytest.mark.parametrize(("code", "tries"), [(KILLED, TRIES), (os.EX_NOHOST, TRIES), (1, 1)])
def test_an_analysis_that_gets_no_further_is_given_up_and_its_steps_are_rescued(code, tries):
    course, actions = go(Course(), *(Ended(code, 4) for _ in range(tries)))
    assert course.part is Part.FOLD
    course, actions = go(course, Ended(code, 4))
    assert (course.part, course.keeping, actions) == (Part.FINISH, KeepsRun.RESCUED, [Start(Part.FINISH)])
    assert course.failure


def test_an_error_that_repeats_at_one_step_ends_the_analysis_whatever_came_between():
    course, _ = go(Course(), Ended(1, 3), Ended(1, 4), Ended(KILLED, 4))
    assert course.part is Part.FOLD
    course, _ = go(course, Ended(1, 4))
    assert course.part is Part.FINISH


@pytest.mark.parametrize("code", [0, INCOMPLETE, os.EX_USAGE])
def test_what_was_folded_is_published_before_the_rest_is_rescued_if_that_can_be_done(code):
    course, actions = go(Course(), Ended(KILLED, 4), Ended(os.EX_DATAERR, 4), Ended(code, 4))
    assert (course.part, actions) == (Part.RESCUE, [Start(Part.RESCUE)])


@pytest.mark.parametrize(("code", "tries"), [(1, 1), (KILLED, TRIES), (os.EX_IOERR, TRIES)])
def test_a_publication_whose_failure_may_pass_is_tried_again_and_what_was_folded_is_held_if_it_does_not(code, tries):
    course, actions = go(Course(), SimulationEnded(), Ended(os.EX_DATAERR, 4), Ended(code, 4))
    assert (course.part, [type(action) for action in actions]) == (Part.FINISH, [Start])
    course, actions = go(course, *[Ended(code, 4)] * tries)
    assert (course.part, course.keeping, course.published, actions) == (Part.NONE, KeepsRun.HELD, False, [])


def test_a_publication_does_not_keep_the_simulation_from_going_on():
    course, actions = go(Course(), Ended(os.EX_DATAERR, 4), *[Ended(KILLED, 4)] * (TRIES + 1))
    assert (course.part, actions) == (Part.RESCUE, [Start(Part.RESCUE)])


def test_an_analysis_that_dies_when_the_nodes_have_forgotten_the_stream_has_done_its_work():
    course, actions = go(Course(), Ended(KILLED, -1, forgotten=True))
    assert (course.part, course.keeping, actions) == (Part.NONE, KeepsRun.RESULTS, [])


def test_what_was_published_before_the_nodes_forgot_the_stream_leaves_nothing_to_rescue():
    course, _ = go(Course(), SimulationEnded(), Ended(os.EX_DATAERR, 48))
    assert course.part is Part.FINISH
    course, actions = go(course, Ended(INCOMPLETE, -1, forgotten=True))
    assert (course.part, course.keeping, actions) == (Part.NONE, KeepsRun.RESULTS, [])


def test_an_analysis_that_ends_while_the_user_interrupts_it_leaves_nothing_to_rescue():
    course, actions = go(Course(), Interrupted(), Interrupted())
    assert actions[-1] == Start(Part.RESCUE)
    course, actions = go(course, StreamForgotten())
    assert (course.part, course.keeping, course.failure, actions) == (Part.NONE, KeepsRun.RESULTS, "", [])


def test_a_rescue_of_what_no_node_knows_is_not_begun():
    course, _ = go(Course(), Ended(os.EX_DATAERR, -1))
    course, actions = go(course, StreamForgotten())
    assert (course.part, course.keeping, actions) == (Part.NONE, KeepsRun.RESCUED, [])


def test_tries_without_progress_come_more_and_more_slowly():
    course, waits = Course(), []
    for _ in range(12):
        course, actions = go(course, Ended(os.EX_IOERR, -1))
        waits.append(actions[0].wait_s)
    assert waits == sorted(waits)
    assert (waits[0], waits[-1]) == (1.0, LONGEST_WAIT_S)


def test_a_wrong_configuration_is_not_tried_twice():
    course, actions = go(Course(), Ended(os.EX_USAGE, -1))
    assert (course.part, actions) == (Part.RESCUE, [Start(Part.RESCUE)])


def test_the_simulation_is_stopped_if_the_user_wants_that():
    _, actions = go(Course(STOP), Ended(os.EX_USAGE, -1))
    assert actions == [StopSimulation(), Start(Part.RESCUE)]
    _, actions = go(Course(STOP), SimulationEnded(), Ended(os.EX_USAGE, -1))
    assert actions == [Start(Part.RESCUE)]


def test_a_full_file_system_is_waited_for_as_long_as_the_simulation_runs():
    full = [Ended(os.EX_IOERR, 7)] * 100
    course, actions = go(Course(), *full)
    assert (course.part, actions) == (Part.FOLD, [Start(Part.FOLD, LONGEST_WAIT_S)])
    course, actions = go(course, SimulationEnded())
    assert actions == [Hurry()]
    course, _ = go(course, *full[: TRIES + 1])
    assert course.part is Part.FINISH
    course, actions = go(course, *full[: TRIES + 1])
    assert (course.part, course.keeping, actions) == (Part.NONE, KeepsRun.HELD, [])


def test_a_rescue_is_tried_again_as_long_as_the_simulation_may_wait_for_room_and_given_up_after_its_end():
    refused = [Ended(os.EX_NOPERM, -1)] * 100
    course, actions = go(Course(), Ended(os.EX_USAGE, -1), *refused)
    assert (course.part, actions) == (Part.RESCUE, [Start(Part.RESCUE, LONGEST_WAIT_S)])
    course, actions = go(course, SimulationEnded())
    assert actions == [Hurry()]
    course, actions = go(course, Ended(os.EX_NOPERM, -1))
    assert (course.part, course.keeping, actions) == (Part.NONE, KeepsRun.HELD, [])


@pytest.mark.parametrize("code", [0, INCOMPLETE])
def test_a_rescue_that_is_done_ends_the_course(code):
    course, _ = go(Course(), Ended(os.EX_USAGE, -1), Ended(KILLED, 3), Ended(code, 9))
    assert (course.part, course.keeping) == (Part.NONE, KeepsRun.RESCUED)


def test_the_first_interrupt_is_for_the_simulation_the_second_for_the_analysis_the_third_for_all():
    course, actions = go(Course(), Interrupted())
    assert (course.part, actions) == (Part.FOLD, [StopSimulation(signal.SIGINT)])
    course, actions = go(course, SimulationEnded(), Interrupted())
    assert (course.part, actions) == (Part.RESCUE, [StopPart(), Start(Part.RESCUE)])
    course, actions = go(course, Interrupted())
    assert (course.part, course.keeping, actions) == (Part.NONE, KeepsRun.LEFT, [StopPart()])


@pytest.mark.parametrize(("reads", "how"), [(False, StopSimulation()), (True, AskToStop("lows: enough"))])
def test_a_function_ends_the_simulation_once_by_the_stream_that_it_reads_or_by_a_signal(reads, how):
    asked = StopAsked("lows: enough", reads=reads)
    course, actions = go(Course(), asked)
    assert (course.stopped, course.part, actions) == ("lows: enough", Part.FOLD, [how])
    assert go(course, asked) == (course, [])
    ended, _ = go(Course(), SimulationEnded())
    assert go(ended, asked) == (ended, [])
    for code in (0, -signal.SIGTERM):
        assert go(course, SimulationEnded(code))[0].ended_well == (code == 0)


def test_what_is_said_names_the_signal():
    _, actions = Course().after(Ended(KILLED, 1))
    assert actions[0] == Say("the analysis was killed by SIGKILL; it is started again now")
