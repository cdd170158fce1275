"""Options that would have no effect: who gives one expects something of it, so it is refused."""

import argparse

from bbflow.errors import ConfigError


def refuse(options: argparse.Namespace, when: str, *names: str) -> None:
    """Refuse options that would have no effect.

    Parameters
    ----------
    options
        What a command was given.
    when
        When they have none, such as ``without --site``.
    names
        Theirs, without hyphens before them; one that has its default's value isn't told from one that isn't given.

    Raises
    ------
    ConfigError
        If one of them is given.
    """
    for name in names:
        own = name.replace("-", "_")
        if getattr(options, own) != options.default_of(own):
            raise ConfigError(f"--{name} has no effect {when}: leave it out")
