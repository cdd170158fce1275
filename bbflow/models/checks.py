"""What numbers a model takes; none of them takes NaN."""

from bbflow.errors import ConfigError


def check_above_zero(**numbers: float) -> None:
    """Refuse numbers that are not above 0.

    Raises
    ------
    ConfigError
        If there is one.
    """
    for name, number in numbers.items():
        if not number > 0:
            raise ConfigError(f"{name} is {number:g}: it must be above 0")


def check_shares(**shares: float) -> None:
    """Refuse shares outside of 0 to 1.

    Raises
    ------
    ConfigError
        If there is one.
    """
    for name, share in shares.items():
        if not 0 <= share <= 1:
            raise ConfigError(f"{name} is {share:g}: it must lie between 0 and 1")


def check_amounts(**amounts: float) -> None:
    """Refuse bytes, seconds and prices below 0.

    Raises
    ------
    ConfigError
        If there is one.
    """
    for name, amount in amounts.items():
        if not amount >= 0:
            raise ConfigError(f"{name} is {amount:g}: it can't be negative")
