import pytest
from hypothesis import given
from hypothesis import strategies as st

from bbflow.errors import ConfigError, nearest
from bbflow.units import format_bytes, parse_bytes, parse_capacity


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1048576", 1 << 20),
        (4096, 4096),
        ("512MiB", 512 << 20),
        ("512 mib", 512 << 20),
        ("2GB", 2_000_000_000),
        ("1.5 KiB", 1536),
        ("1k", 1000),
        ("64Gi", 64 << 30),
        ("3TB", 3 * 10**12),
        ("7B", 7),
    ],
)
def test_sizes_are_read_as_people_write_them(text, size):
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "much", "-1", "1e9", "5 XB", "MiB", "1..5MB", "0", "0.5", None, True, "∞"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(ConfigError, match="is not a size"):
        parse_bytes(text)


@given(st.integers(1, 999), st.integers(0, 4))
def test_a_written_size_is_read_back(number, power):
    assert parse_bytes(format_bytes(number << 10 * power)) == number << 10 * power


@pytest.mark.parametrize("size", [1000 << 10, 1023 << 20])
def test_a_size_just_below_the_next_unit_is_written_without_an_exponent(size):
    assert parse_bytes(format_bytes(size)) == pytest.approx(size, rel=0.006)


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (1 << 30, "1 GiB"), (5 << 40, "5 TiB")]
)
def test_sizes_are_written_with_a_binary_unit(size, text):
    assert format_bytes(size) == text


def test_an_unknown_name_gets_the_nearest_or_all():
    assert nearest("maen", ["mean", "max"]) == "did you mean 'mean'?"
    assert nearest("quantile", ["mean", "max"]) == "valid are max, mean"
    assert nearest("MEAN", ["mean", "max"]) == "did you mean 'mean'?"
    assert nearest("rx1dya", ["mean", "Rx1day"]) == "did you mean 'Rx1day'?"
    assert nearest("time", []) == "there are none"


def test_a_pool_has_a_page_at_least():
    assert parse_capacity("4KiB") == 4096
    with pytest.raises(ConfigError, match="'4095' is less than a page of 4096 bytes: write a size with a unit"):
        parse_capacity("4095")
