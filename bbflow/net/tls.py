"""TLS for connections between hosts, with the cluster's own certificates (RFC 8446)."""

import ssl
from dataclasses import dataclass
from pathlib import Path

from bbflow.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Certificate:
    """What a node shows to its peers."""

    chain: Path
    """PEM file with the node's certificate and those between it and the authority."""
    key: Path
    """PEM file with its private key."""
    authority: Path
    """PEM file with the authority's certificate, at a path that the peers can read."""

    def context(self) -> ssl.SSLContext:
        """Return what the node's sockets are wrapped with.

        Raises
        ------
        ConfigError
            If the files are not there, or don't fit each other.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(self.chain, self.key)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"the certificate {self.chain} with the key {self.key} can't be used: {error}") from None
        return context


def peer_context(authority: str) -> ssl.SSLContext:
    """Return what a peer's sockets are wrapped with.

    Raises
    ------
    ConfigError
        If the authority's certificate can't be read.
    """
    try:
        context = ssl.create_default_context(cafile=authority)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"the authority's certificate {authority} can't be read: {error}") from None
    # As before Python 3.13, and in the engine: an authority may name no use of its key, as from `openssl req -x509`,
    # and a node's own certificate is none.
    context.verify_flags &= ~(ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN)
    return context
