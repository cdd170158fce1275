"""What numbers a model takes; none of them takes NaN. Each check raises ConfigError for the first that can't be."""

from collections.abc import Callable, Mapping

from bbflow.errors import ConfigError


def check_above_zero(**numbers: float) -> None:
    """Refuse numbers that are not above 0."""
    _check(numbers, lambda number: number > 0, "it must be above 0")


def check_shares(**shares: float) -> None:
    """Refuse shares outside of 0 to 1."""
    _check(shares, lambda share: 0 <= share <= 1, "it must lie between 0 and 1")


def check_amounts(**amounts: float) -> None:
    """Refuse bytes, seconds and prices below 0."""
    _check(amounts, lambda amount: amount >= 0, "it can't be negative")


def _check(numbers: Mapping[str, float], can_be: Callable[[float], bool], rule: str) -> None:
    for name, number in numbers.items():
        if not can_be(number):
            raise ConfigError(f"{name} is {number:g}: {rule}")
