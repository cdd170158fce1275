"""Where transfers for users may go: the controller may be in networks that they aren't, and has servers of its own.

What a URL names is looked at before anything is opened, and each address when a connection is made to it: a name may
mean another address by then, and a server may send one elsewhere.
"""

import ipaddress
import os
import socket
import sys
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import urlsplit

from bbflow.errors import SourceError
from bbflow.stores.urls import HTTP, is_local, split_range

LOCAL = "file"
SCHEMES = (LOCAL, "http", "https", "s3", "s3a")
"""Allowed unless a site says otherwise. Others of fsspec's start programs or read files that name further ones."""
_NOWHERE = "http://0.0.0.0:1"
_METADATA = frozenset(map(ipaddress.ip_address, ("fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "192.0.0.192")))
"""Where clouds give out a host's keys beside its links: Amazon's, Google's, Alibaba's and Oracle's."""
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Reach:
    """What a site lets transfers reach.

    Parameters
    ----------
    schemes
        Protocols of URLs; ``file`` is a path.
    hosts
        Names, patterns of names, addresses or networks; none: all but this host itself and what is local to its links.
    """

    def __init__(self, schemes: Sequence[str], hosts: Sequence[str]) -> None:
        self._schemes, self._networks, self._names = schemes, *_sorted(hosts)
        self._known: set[Address] = set()

    def check(self, url: str) -> None:
        """Check that a URL may be used.

        Raises
        ------
        SourceError
            If its protocol or its host isn't allowed.
        """
        for scheme in _schemes(url):
            if scheme not in self._schemes:
                allowed = ", ".join(self._schemes)
                raise SourceError(f"{url}: the site's transfers use {allowed}, not {scheme}: see 'schemes' in its file")
        if not is_local(url) and not url.startswith(("s3://", "s3a://")) and (host := urlsplit(url).hostname):
            self._check_name(host)

    def enforce(self) -> None:
        """Restrict all further connections of this process to these; that can't be taken back."""
        os.environ["AWS_METADATA_ENDPOINT"] = _NOWHERE  # a host's role in a cloud is no user's
        resolve = socket.getaddrinfo

        def known(host: Any, *words: Any, **more: Any) -> list[Any]:
            self._check_name(host.decode() if isinstance(host, bytes) else host)
            found = resolve(host, *words, **more)
            self._known.update(_address(str(entry[4][0])) for entry in found)
            return found

        socket.getaddrinfo = known
        sys.addaudithook(self._on_event)

    def _on_event(self, event: str, values: Any) -> None:
        if event not in ("socket.connect", "socket.sendto") or isinstance(values[0], _Probe):
            return
        if values[0].family in (socket.AF_INET, socket.AF_INET6):
            self._check_address(_address(values[1][0]))

    def _check_name(self, host: str | None) -> None:
        if not self._networks and not self._names:
            return
        try:
            self._check_address(_address(host or ""))
        except ValueError:
            if not any(fnmatchcase((host or "").lower().rstrip("."), name) for name in self._names):
                raise _refused(host) from None

    def _check_address(self, address: Address) -> None:
        if any(address in network for network in self._networks):
            return
        is_unlisted = (self._networks or self._names) and address not in self._known
        if is_unlisted or _is_own(address):
            raise _refused(address)


def _refused(host: object) -> SourceError:
    return SourceError(f"the site's transfers don't go to {host}: see 'hosts' in its file")


def _schemes(url: str) -> Iterable[str]:
    whole = split_range(url)[0]
    if is_local(whole):
        return (LOCAL,)
    if whole.startswith(HTTP):
        return (whole.partition(":")[0],)  # which may have an address of IPv6, with colons
    return [part.partition(":")[0].lower() or LOCAL for part in whole.split("::")]


def _sorted(hosts: Sequence[str]) -> tuple[list[Any], list[str]]:
    networks, names = [], []
    for host in hosts:
        try:
            networks.append(ipaddress.ip_network(host, strict=False))
        except ValueError:
            names.append(host.lower())
    return networks, names


def _address(text: str) -> Address:
    found = ipaddress.ip_address(text.partition("%")[0])
    mapped = getattr(found, "ipv4_mapped", None)
    return mapped or found


def _is_own(address: Address) -> bool:
    """Whether an address is this host's own or its links', or where a cloud gives out a host's keys."""
    if address.is_loopback or address.is_link_local or address.is_unspecified or address.is_multicast:
        return True
    return address in _METADATA or _is_of_this_host(address)


class _Probe(socket.socket):
    """Asks the kernel for a way, and sends nothing."""


def _is_of_this_host(address: Address) -> bool:
    """Whether an address is of one of this host's interfaces: only such a one is reached from itself."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with _Probe(family, socket.SOCK_DGRAM) as probe:
            probe.connect((str(address), 9))
            return _address(probe.getsockname()[0]) == address
    except OSError:
        return False  # there is no way to it
