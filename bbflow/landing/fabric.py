"""What other hosts may write and read of a node's pool by libfabric (FORMAT.md, 'Fabric')."""

import ctypes
import socket
import struct
import weakref
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
"""Where the other side may write or read, as it must call it: the first byte, and the key."""


class FabricGate:
    """What one connection may write, or read.

    Parameters
    ----------
    gates, handle
        In the library.
    way
        How the other side gets at it.
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
        return b"".join(self._open("grant", extent) for extent in extents)

    def show(self, offset: int, size: int) -> bytes:
        """Open a part of the pool for reading alone; return its base and key.

        Raises
        ------
        NodeError
            If it can't be registered.
        """
        return self._open("show", (offset, size))

    def _open(self, how: str, extent: Extent) -> bytes:
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._pool())) + extent[0]
        opened, why = ctypes.create_string_buffer(OPENED.size), ctypes.create_string_buffer(TEXT_BYTES)
        if not getattr(_library(), f"bbflow_gates_{how}")(self._handle, address, extent[1], opened, why):
            raise NodeError(why.value.decode())
        return opened.raw

    def revoke(self) -> None:
        """Close all that is open: what the other side writes or reads from now on is refused."""
        _library().bbflow_gates_revoke(self._handle)

    def close(self) -> None:
        """End it: nothing that the other side still sends gets anywhere."""
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
            Those that the other host has, the best first.

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
            log(f"bbflow node: libfabric fails, for which a rank or reader has asked: {why}")
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


def _told(why: ctypes.Array[ctypes.c_char]) -> str:
    return why.value.decode().removeprefix("bbflow: ")


class FabricError(NodeError):
    """The network that libfabric uses has failed: TCP may help."""


class FabricReads:
    """What a reader has by libfabric of a node on another host.

    Parameters
    ----------
    way
        How it gets at the node's pool.
    connection
        To the node: when it ends, so does all reading.

    Raises
    ------
    FabricError
        If the way doesn't lead there.
    """

    def __init__(self, way: FabricWay, connection: socket.socket) -> None:
        self._connection = connection
        library, why = _library(), ctypes.create_string_buffer(TEXT_BYTES)
        own, target = connection.getsockname()[0], (way.address, len(way.address), way.scratch)
        handle = library.bbflow_gates_reach(way.provider.encode(), own.encode(), *target, connection.fileno(), why)
        if not handle:
            raise FabricError(_told(why))
        self._handle = handle
        # Also at the interpreter's end, when `__del__` may not find the library any more.
        self._close = weakref.finalize(self, library.bbflow_gates_leave, handle)

    def read(self, target: memoryview, shown: bytes) -> None:
        """Read a part of the pool.

        Parameters
        ----------
        target
            Where the bytes go.
        shown
            Base and key of the part.

        Raises
        ------
        FabricError
            If it fails; nothing else can be read then.
        NodeError
            If the node is gone; nothing else can be read then, either.
        """
        why, is_gone = ctypes.create_string_buffer(TEXT_BYTES), ctypes.c_bool()
        own = (ctypes.c_char * len(target)).from_buffer(target)
        words = (self._handle, own, len(target), shown, self._connection.fileno(), ctypes.byref(is_gone), why)
        if not self._close.alive:
            raise FabricError("it has failed before")
        if not _library().bbflow_gates_read(*words):
            self.close()  # before the target may go
            raise (NodeError if is_gone.value else FabricError)(_told(why))

    def close(self) -> None:
        """End it."""
        self._close()


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
        "show": ([pointer, pointer, size, text, text], ctypes.c_bool),
        "revoke": ([pointer], None),
        "reach": ([text, text, text, size, text, ctypes.c_int, text], pointer),
        "read": ([pointer, pointer, size, text, ctypes.c_int, ctypes.POINTER(ctypes.c_bool), text], ctypes.c_bool),
        "leave": ([pointer], None),
        "providers": ([ctypes.c_bool, text, text], ctypes.c_bool),
    }
    for name, (arguments, result) in signatures.items():
        function = getattr(library, f"bbflow_gates_{name}")
        function.argtypes, function.restype = arguments, result
    return library
