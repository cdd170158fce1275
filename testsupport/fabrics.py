"""libfabric, where this host has it: its software providers are on every host that does."""

import ctypes

import pytest

PROVIDER = "tcp;ofi_rxm"


def has_libfabric():
    """Whether this host has it."""
    try:
        ctypes.CDLL("libfabric.so.1")
    except OSError:
        return False
    return True


NEEDS_LIBFABRIC = pytest.mark.skipif(not has_libfabric(), reason="needs libfabric (Debian: libfabric1)")
