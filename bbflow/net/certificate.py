"""The certificate of a run's Dask: who has the file is let in, by scheduler, workers and clients alike (mutual TLS)."""

import stat
from pathlib import Path

from bbflow.errors import ConfigError
from bbflow.host.atomic import PRIVATE, write_whole
from bbflow.net.contact import only_one


def certificate_of(contact: Path) -> Path:
    """Return the path of the certificate that belongs to a contact file."""
    return contact.absolute().with_suffix(".dask.pem")


def ensure_certificate(contact: Path) -> Path:
    """Return the certificate that belongs to a contact file, which is made if need be. Safe on several hosts at once.

    Raises
    ------
    ConfigError
        If there is one that others can read.
    """
    path = certificate_of(contact)
    with only_one(contact):
        if not path.exists():
            from bbflow.net.certifying import new_certificate  # late: most runs need none

            write_whole(path, new_certificate(), PRIVATE)
    return checked_certificate(path)


def checked_certificate(path: Path) -> Path:
    """Return the path of a certificate back if it is a secret.

    Raises
    ------
    ConfigError
        If others can read it.
    """
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        raise ConfigError(f"the key in {path} isn't a secret, its mode is {mode:o}: remove it and start Dask again")
    return path
