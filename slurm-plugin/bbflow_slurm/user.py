"""Whose a job is."""

import os
import pwd
from dataclasses import dataclass

from bbflow.errors import ConfigError

NOBODY = 65534
"""Who reads a script whose owner Slurm doesn't name, where no user is called nobody."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose a job is."""

    uid: int
    """User."""
    gid: int
    """Group."""
    room_bytes: int = 0
    """What the job asked for; 0 if it said nothing."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What a process has of its user."""

    uid: int
    """User."""
    gid: int
    """Group."""
    groups: tuple[int, ...]
    """All groups."""
    name: str
    """As the host knows it."""
    home: str
    """Home directory."""


def identity(owner: Owner) -> Identity:
    """Look a job's user up on this host.

    Raises
    ------
    ConfigError
        If this process may not become that user, or the host doesn't know it.
    """
    if os.geteuid() not in (0, owner.uid):
        raise ConfigError(
            f"user {os.geteuid()} can't work for user {owner.uid}: let Slurm's controller run this as root, by sudo"
        )
    try:
        found = pwd.getpwuid(owner.uid)
    except KeyError:
        raise ConfigError(f"user {owner.uid} isn't known on this host, which works for jobs") from None
    groups = tuple(os.getgrouplist(found.pw_name, owner.gid))
    return Identity(owner.uid, owner.gid, groups, found.pw_name, found.pw_dir)


def nobody() -> Owner:
    """Return the user who owns nothing; this process's own, if it isn't root."""
    if os.geteuid() != 0:
        return Owner(os.geteuid(), os.getegid())
    try:
        found = pwd.getpwnam("nobody")
    except KeyError:
        return Owner(NOBODY, NOBODY)
    return Owner(found.pw_uid, found.pw_gid)
