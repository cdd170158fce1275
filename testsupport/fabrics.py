"""libfabric, where this host has it: its software providers are on every host that does."""

import ctypes
from pathlib import Path

import pytest

PROVIDER = "tcp;ofi_rxm"


def has_libfabric():
    """Whether this host has it."""
    try:
        ctypes.CDLL("libfabric.so.1")
    except OSError:
        return False
    return True


def has_fast_network():
    """Whether a device of this host may be better than TCP."""
    return any(Path("/sys/class", name).is_dir() for name in ("infiniband", "cxi"))


NEEDS_LIBFABRIC = pytest.mark.skipif(not has_libfabric(), reason="needs libfabric (Debian: libfabric1)")
