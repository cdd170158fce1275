"""Where a node listens, and how a peer reaches it: Unix socket on its own host, TCP from others."""

import ipaddress
import resource
import socket
import struct
from pathlib import Path

from bbflow.errors import ConfigError, NodeError

LOOPBACK = "127.0.0.1"
BACKLOG = 1024
SILENCE_S = 20
"""How long a host may acknowledge nothing before it counts as gone; that of a process that is stopped does."""
PROBES = 3
"""Probes that may go unanswered: with the idle time before them they take that long."""
_TCP_INFO = struct.Struct("8B13I")
"""The beginning of what Linux tells of a connection (linux/tcp.h)."""
_PROBES, _UNACKED, _LAST_DATA, _LAST_ACK = 3, 12, 19, 20


def listen_unix(path: Path) -> socket.socket:
    """Listen at a path.

    Raises
    ------
    NodeError
        If another agent listens there, or the path is too long.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            # The name outlives its process: only a refused connection tells that no one listens there.
            probe.connect(str(path))
            raise NodeError(f"another agent serves {path.parent}: stop it first")
        except (FileNotFoundError, ConnectionRefusedError):
            path.unlink(missing_ok=True)
        except OSError as error:
            raise _no_listener(path, error) from None
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(str(path))
    except OSError as error:
        raise _no_listener(path, error) from None
    listener.listen(BACKLOG)
    return listener


def _no_listener(path: Path, error: OSError) -> NodeError:
    # Of a path that is too long Python itself says so, without a number.
    remedy = "give a shorter --directory" if error.errno is None else "give another --directory"
    return NodeError(f"can't listen at {path} ({error.strerror or error}): {remedy}")


def listen_tcp(address: str) -> socket.socket:
    """Listen at ``host[:port]``; without a port, at any that is free.

    Raises
    ------
    ConfigError
        If this isn't an address.
    NodeError
        If it is not one of this host, or in use.
    """
    host, port = split_address(address)
    try:
        (family, _, _, _, target), *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        listener = socket.socket(family, socket.SOCK_STREAM)
        # An agent that is started again gets its port back while connections of the one before are in TIME_WAIT.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(target)
    except OSError as error:
        raise NodeError(f"can't listen at {address} ({error.strerror}): give another --listen") from None
    listener.listen(BACKLOG)
    return listener


def split_address(address: str) -> tuple[str, int]:
    """Take ``host:port``, ``host``, ``[IPv6]:port`` or an IPv6 address apart; the port is 0 if there is none.

    Raises
    ------
    ConfigError
        If this isn't an address.
    """
    host, port = address, "0"
    if address.startswith("[") or address.count(":") == 1:
        host, _, port = address.rpartition(":") if not address.endswith("]") else (address, "", "0")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise ConfigError(f"{address!r} isn't an address: give HOST, HOST:PORT or [IPV6]:PORT")
    return host.strip("[]"), int(port)


def public_host(address: str) -> str:
    """Return the host of ``host[:port]`` as peers call it: this host's name where that is every address of it."""
    host, _ = split_address(address)
    try:
        return socket.gethostname() if ipaddress.ip_address(host).is_unspecified else host
    except ValueError:  # a name
        return host


def public_address(listener: socket.socket, address: str) -> str:
    """Return ``host:port`` for the contact file.

    Parameters
    ----------
    listener
        A TCP listener.
    address
        Its ``host[:port]`` as the user gave it.
    """
    host, port = public_host(address), listener.getsockname()[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(address: str) -> bool:
    """Whether only programs of the same host reach an address."""
    host, _ = split_address(address)
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def tune(peer: socket.socket) -> None:
    """Make a TCP connection answer fast, and notice when the other host is gone."""
    # Requests and replies are small and wait for each other: Nagle's algorithm would add 40 ms to some.
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, SILENCE_S // (PROBES + 1))
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, SILENCE_S // (PROBES + 1))
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, PROBES)


def is_silent(peer: socket.socket, silence_s: float = SILENCE_S) -> bool:
    """Whether something is on its way over TCP to a host that has acknowledged nothing for so long.

    The kernel probes idle connections by itself. What limits the others (TCP_USER_TIMEOUT) would also end those to a
    process that is stopped and takes nothing.
    """
    told: tuple[int, ...] = _TCP_INFO.unpack(peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size))
    # Some kernels don't count data from the peer as an acknowledgement where it acknowledges nothing new, and then
    # don't probe either: a peer that has only sent would be silent in the moment in which it is sent something.
    heard_ms = min(told[_LAST_DATA], told[_LAST_ACK])
    return (told[_UNACKED] > 0 or told[_PROBES] > 1) and heard_ms >= 1e3 * silence_s


def raise_open_files() -> int:
    """Raise this process' limit of descriptors as far as it may go; return it."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most if most != resource.RLIM_INFINITY else 1 << 20
