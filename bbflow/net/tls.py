"""TLS for connections between hosts, with the cluster's own certificates (RFC 8446)."""

import ssl
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from bbflow.errors import ConfigError, NodeError


@dataclass(frozen=True, slots=True)
class Certificate:
    """What a node shows to its peers."""

    chain: Path
    """PEM file with the node's certificate and those between it and the authority."""
    key: Path
    """PEM file with its private key."""
    authority: Path
    """PEM file with the authority's certificate, at a path that the peers can read."""

    def context(self, host: str) -> ssl.SSLContext:
        """Return what the node's sockets are wrapped with.

        Parameters
        ----------
        host
            The address at which peers reach the node.

        Raises
        ------
        ConfigError
            If the files can't be used, or no peer would accept them there.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            for file in (self.chain, self.key):
                file.open("rb").close()  # OpenSSL doesn't say which of them isn't there
            # Without a password OpenSSL asks the terminal for it, in which a node may not have anyone.
            context.load_cert_chain(self.chain, self.key, _no_passphrase)
        except ssl.SSLError as error:
            told = f"{error.reason or 'they are no PEM files'}"
            raise ConfigError(f"the certificate {self.chain} with the key {self.key} can't be used: {told}") from None
        except OSError as error:
            raise ConfigError(f"can't read {error.filename}, of the node's certificate: {error.strerror}") from None
        self._try(context, host)
        return context

    def _try(self, context: ssl.SSLContext, host: str) -> None:
        """Shake hands with a peer in memory: better refused here than by each rank in its turn."""
        asked, answered = ssl.MemoryBIO(), ssl.MemoryBIO()
        try:
            accepted = peer_context(str(self.authority))
        except NodeError as error:
            raise ConfigError(str(error)) from None
        peer = accepted.wrap_bio(answered, asked, server_hostname=host)
        node = context.wrap_bio(asked, answered, server_side=True)
        try:
            for side in (peer, node, peer):
                with suppress(ssl.SSLWantReadError):
                    side.do_handshake()
        except ssl.SSLError as error:
            raise ConfigError(
                f"the certificate {self.chain} isn't one that peers accept at {host} by the authority "
                f"{self.authority}: {reason(error)}"
            ) from None


def _no_passphrase() -> NoReturn:
    raise ConfigError("the key of the node's certificate has a passphrase: give one that has none")


def reason(error: ssl.SSLError) -> str:
    """Return why a handshake failed."""
    return str(getattr(error, "verify_message", "")) or str(error)


def peer_context(authority: str) -> ssl.SSLContext:
    """Return what a peer's sockets are wrapped with.

    Raises
    ------
    NodeError
        If the authority's certificate can't be read. So it may be for a moment, while it is renewed or its file system
        doesn't answer: it passes as a node does that doesn't.
    """
    try:
        context = ssl.create_default_context(cafile=authority)
    except OSError as error:
        raise NodeError(f"the authority's certificate {authority} can't be read: {error}") from None
    # As before Python 3.13, and in the engine: an authority may name no use of its key, as from `openssl req -x509`,
    # and a node's own certificate is none.
    context.verify_flags &= ~(ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN)
    return context
