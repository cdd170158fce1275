"""Fields that only some steps have are told of."""

from bbflow.transit.folding.attendance import Attendance


def test_fields_that_only_some_steps_had_are_named_with_how_many():
    attendance = Attendance()
    for number in range(10):
        attendance.take(["a", "b"] if number else [])
    attendance.take(["c"])
    told = attendance.described()
    assert told[0].startswith("'a' and 1 more: in 2 of 11 steps only")
    assert told[1].startswith("'c': in 10 of 11 steps only")


def test_nothing_is_said_of_fields_that_every_step_had():
    attendance = Attendance()
    attendance.take([])
    assert attendance.described() == []
