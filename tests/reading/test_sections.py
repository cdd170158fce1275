"""One set of rules for whatever is configured."""

from dataclasses import dataclass

import pytest

from bbflow.errors import ConfigError
from bbflow.reading.sections import as_list, flag, names_or_all, number, positive, read_section, text, whole_number


@pytest.mark.parametrize(
    ("reader", "value", "read"),
    [
        (number, "1e5", 1e5), (number, 2, 2), (whole_number, 0, 0), (whole_number, 1e6, 10**6), (positive, "3", 3),
        (flag, "Off", False), (text, " a ", "a"), (names_or_all, "all", None),
        (names_or_all, "a", ("a",)), (names_or_all, ["a", "5"], ("a", "5")),
    ],
)  # fmt: skip
def test_values_that_are_read(reader, value, read):
    assert reader(value) == read
    assert type(reader(value)) is type(read)


@pytest.mark.parametrize(
    ("reader", "value", "said"),
    [
        (number, True, "True is not a finite number"), (number, "inf", "'inf' is not a finite number"),
        (number, [1], r"\[1\] is not"), (whole_number, True, "True is not a whole number from 0"),
        (whole_number, 1.5, "1.5 is not a whole number from 0"), (whole_number, "nan", "'nan' is not"),
        (positive, 0, "0 is not a whole number from 1"), (flag, 1, "1 is neither true nor false"),
        (text, 1, "1 is not a text: quote it"), (text, 1.1, "1.1 is not a text: quote it"),
        (text, True, "True is not a text: quote it"), (text, " ", "' ' is"),
        (lambda value: as_list(value, "windows"), None, "windows must be a list"),
    ],
)  # fmt: skip
def test_values_that_are_refused(reader, value, said):
    with pytest.raises(ConfigError, match=said):
        reader(value)


@dataclass
class Section:
    count: int
    name: str = "a"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ([1], "there must be a map with the keys count, name"),
        ({"cuont": 1}, "there: unknown key 'cuont'; did you mean 'count'"),
        ({"name": "b"}, "there: the key 'count' is missing"),
        ({"count": None}, "there: the key 'count' has no value: give it one, or take it out"),
        ({"count": True}, "there: count: True is not a whole number from 1"),
    ],
)
def test_sections_that_are_refused(content, said):
    with pytest.raises(ConfigError, match=said):
        read_section(Section, content, "there", count=positive, name=text)


def test_a_key_that_is_not_there_has_its_default():
    assert read_section(Section, {"count": 2}, "there", count=positive, name=text) == Section(2, "a")
