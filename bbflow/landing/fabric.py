"""What ranks of other hosts may write of a node's pool by libfabric (FORMAT.md, 'Fabric')."""

import ctypes
import struct
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from bbflow.errors import NodeError
from bbflow.host.log import log
from bbflow.landing.replies import FabricWay
from bbflow.store.extents import Extent

LIBRARY = "libbbflow_gates.so"
ADDRESS_BYTES, TEXT_BYTES = 256, 512
OPENED = struct.Struct("<QQ")
"""Where a rank may write, as it must call it: the first byte, and the key."""


class FabricGate:
    """What one connection may write.

    Parameters
    ----------
    gates, handle
        In the library.
    way
        How its rank gets at it.
    pool
        Gives the node's memory.
    """

    def __init__(self, gates: int, handle: int, way: FabricWay, pool: Callable[[], memoryview]) -> None:
        self._gates, self._handle, self._pool = gates, handle, pool
        self.way = way

    def grant(self, extents: Sequence[Extent]) -> bytes:
        """Open extents of the pool; return base and key of each.

        Raises
        ------
        NodeError
            If they can't be registered.
        """
        begin = ctypes.addressof(ctypes.c_char.from_buffer(self._pool()))
        return b"".join(self._open(begin + offset, size) for offset, size in extents)

    def _open(self, address: int, size: int) -> bytes:
        opened, why = ctypes.create_string_buffer(OPENED.size), ctypes.create_string_buffer(TEXT_BYTES)
        if not _library().bbflow_gates_grant(self._handle, address, size, opened, why):
            raise NodeError(why.value.decode())
        return opened.raw

    def revoke(self) -> None:
        """Close all extents: what its rank writes from now on is refused."""
        _library().bbflow_gates_revoke(self._handle)

    def close(self) -> None:
        """End it: nothing that its rank still sends gets anywhere."""
        _library().bbflow_gates_close(self._gates, self._handle)


class FabricGates:
    """All gates of a node; libfabric is loaded for the first.

    Parameters
    ----------
    host
        Name or address by which other hosts reach the node.
    pool
        Gives its memory.
    """

    def __init__(self, host: str, pool: Callable[[], memoryview]) -> None:
        self._host, self._pool = host, pool
        self._handle: int | None = None
        self._told = ""

    def open(self, providers: Sequence[str]) -> FabricGate:
        """Open a gate by the first provider that works on this host.

        Parameters
        ----------
        providers
            Those that the rank's host has, the best first.

        Raises
        ------
        NodeError
            If none does; it says why of each.
        """
        whys = []
        for provider in providers:
            try:
                return self._open(provider)
            except NodeError as error:
                whys.append(str(error).removeprefix("bbflow: "))
        why = "; ".join(whys)
        if why != self._told:  # a rank that wants nothing else asks again and again
            log(f"bbflow node: libfabric fails, for which a rank has asked: {why}")
            self._told = why
        raise NodeError(why)

    def _open(self, provider: str) -> FabricGate:
        library, why = _library(), ctypes.create_string_buffer(TEXT_BYTES)
        if self._handle is None:
            self._handle = library.bbflow_gates_new(why)
        address, size = ctypes.create_string_buffer(ADDRESS_BYTES), ctypes.c_size_t(ADDRESS_BYTES)
        scratch = ctypes.create_string_buffer(OPENED.size)
        handle = self._handle and library.bbflow_gates_open(
            self._handle, provider.encode(), self._host.encode(), address, ctypes.byref(size), scratch, why
        )
        if not handle:
            raise NodeError(why.value.decode())
        way = FabricWay(provider=provider, address=address.raw[: size.value], scratch=scratch.raw)
        return FabricGate(self._handle, handle, way, self._pool)

    def close(self) -> None:
        """End all."""
        if self._handle is not None:
            _library().bbflow_gates_delete(self._handle)
            self._handle = None


def providers(*, slow: bool = False) -> list[str]:
    """Return libfabric's providers on this host that are better than TCP, the best first.

    Parameters
    ----------
    slow
        All that can write another host's memory, in libfabric's own order.

    Raises
    ------
    NodeError
        If there is no libfabric, and it is needed.
    """
    names, why = ctypes.create_string_buffer(TEXT_BYTES), ctypes.create_string_buffer(TEXT_BYTES)
    if not _library().bbflow_gates_providers(slow, names, why):
        raise NodeError(why.value.decode())
    return names.value.decode().splitlines()


@cache
def _library() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(str(Path(__file__).with_name(LIBRARY)))
    except OSError as error:
        raise NodeError(f"can't load {LIBRARY} ({error}): install bbflow again with pip, which builds it") from None
    pointer, text, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
    signatures = {
        "new": ([text], pointer),
        "delete": ([pointer], None),
        "open": ([pointer, text, text, text, ctypes.POINTER(size), text, text], pointer),
        "close": ([pointer, pointer], None),
        "grant": ([pointer, pointer, size, text, text], ctypes.c_bool),
        "revoke": ([pointer], None),
        "providers": ([ctypes.c_bool, text, text], ctypes.c_bool),
    }
    for name, (arguments, result) in signatures.items():
        function = getattr(library, f"bbflow_gates_{name}")
        function.argtypes, function.restype = arguments, result
    return library
