"""Whose a job is, and being that user."""

import os
import pwd
from dataclasses import dataclass

from bbflow.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose a job is."""

    uid: int
    """User."""
    gid: int
    """Group."""
    room_bytes: int
    """What the job asked for; 0 if it said nothing."""


def become(owner: Owner) -> None:
    """Be the job's user from now on.

    Raises
    ------
    ConfigError
        If this process may not.
    """
    if os.geteuid() == owner.uid:
        return
    if os.geteuid() != 0:
        raise ConfigError(
            f"user {os.geteuid()} can't copy for user {owner.uid}: let Slurm's controller run this as root, by sudo"
        )
    try:
        name, home = pwd.getpwuid(owner.uid).pw_name, pwd.getpwuid(owner.uid).pw_dir
    except KeyError:
        raise ConfigError(f"user {owner.uid} isn't known on this host, which copies for jobs") from None
    os.initgroups(name, owner.gid)
    os.setgid(owner.gid)
    os.setuid(owner.uid)
    os.environ.update(HOME=home, USER=name, LOGNAME=name)
