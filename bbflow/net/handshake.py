"""How both sides of a connection prove that they know the contact file's key (FORMAT.md, 'Handshake')."""

import hashlib
import hmac
import secrets
from collections.abc import Callable
from typing import Annotated

from msgspec import Meta, Struct

from bbflow.errors import NodeError, ProtocolError, printable
from bbflow.net.frames import parser
from bbflow.net.seals import Mac, seals
from bbflow.net.verdicts import RefusedReply, parse_verdict
from bbflow.reading.wire_types import VERSION, Count

MAX_FRAME_BYTES = 4096
"""Longest frame before the peer has proved itself."""
TIMEOUT_S = 10.0
"""How long a peer may take to prove itself."""
NONCE_BYTES = 16


class HelloMessage(Struct, frozen=True, tag_field="op", tag="hello", kw_only=True):
    """A peer begins."""

    versions: tuple[Count, Count]
    """The format's lowest and highest version that it speaks."""
    nonce: Annotated[str, Meta(min_length=2 * NONCE_BYTES, max_length=2 * NONCE_BYTES)]


class ProveMessage(Struct, frozen=True, tag_field="op", tag="prove", kw_only=True):
    """A peer proves that it knows the key."""

    proof: str


class HelloReply(Struct, frozen=True, kw_only=True):
    """A node proves that it knows the key."""

    ok: bool = True
    version: Count
    nonce: str
    proof: str


class WelcomeReply(Struct, frozen=True, kw_only=True):
    """A node lets a peer in, and says who it is."""

    ok: bool = True
    name: str
    host: str


HandshakeReply = HelloReply | WelcomeReply | RefusedReply
_parse_hello = parser(HelloReply, "a handshake")
parse_handshake = parser(HelloMessage | ProveMessage, "a handshake")
"""Takes in what a peer says before it has proved itself."""


def prove(key: str, side: str, peer_nonce: str, node_nonce: str) -> str:
    """Return the proof of one side.

    Parameters
    ----------
    key
        The contact file's key.
    side
        ``"node"`` or ``"peer"``.
    peer_nonce, node_nonce
        The random number that each side has drawn for this connection.

    Returns
    -------
    str
        HMAC-SHA-256 (RFC 2104) as hexadecimal digits.
    """
    text = side + peer_nonce + node_nonce
    return hmac.new(bytes.fromhex(key), text.encode(), hashlib.sha256).hexdigest()


class NodeHandshake:
    """The node's side of one connection.

    Parameters
    ----------
    key
        The contact file's key.
    identity
        The last reply: who the node is.
    """

    def __init__(self, key: str, identity: WelcomeReply) -> None:
        self._key = key
        self._identity = identity
        self._nonce = secrets.token_hex(NONCE_BYTES)
        self._peer_nonce = ""
        self.done = False
        """Whether the peer has proved that it belongs here."""

    def answer(self, said: HelloMessage | ProveMessage) -> HandshakeReply:
        """Take the peer's next message in and return the reply; a refusal ends the connection.

        Raises
        ------
        ProtocolError
            If it isn't its turn.
        """
        if isinstance(said, HelloMessage) and not self._peer_nonce:
            return self._hello(said)
        if isinstance(said, ProveMessage) and self._peer_nonce:
            return self._verdict(said.proof, self._peer_nonce)
        raise ProtocolError("a handshake that doesn't begin with 'hello', or begins twice")

    def _hello(self, said: HelloMessage) -> HelloReply | RefusedReply:
        low, high = said.versions
        if not low <= VERSION <= high:
            error = f"the peer speaks versions {low} to {high} of the format, the node {VERSION}"
            return RefusedReply(error=error)
        self._peer_nonce = said.nonce
        proof = prove(self._key, "node", said.nonce, self._nonce)
        return HelloReply(version=VERSION, nonce=self._nonce, proof=proof)

    def _verdict(self, proof: str, peer_nonce: str) -> WelcomeReply | RefusedReply:
        expected = prove(self._key, "peer", peer_nonce, self._nonce)
        # In constant time: how long a comparison takes would tell a stranger how far a guess is right.
        if not hmac.compare_digest(proof.encode(), expected.encode()):
            return RefusedReply(error="the peer doesn't know the contact file's key")
        self.done = True
        return self._identity

    def seals(self) -> tuple[Mac, Mac]:
        """Return the seals of what comes from the peer, and of what goes to it, once it has proved itself."""
        return seals(self._key, self._peer_nonce, self._nonce)


def shake_hands(
    key: str,
    say: Callable[[Struct], None],
    hear: Callable[[], bytes],
    seal: Callable[[Mac, Mac], None] | None = None,
) -> None:
    """Be the peer's side of a new connection.

    Parameters
    ----------
    key
        The contact file's key.
    say, hear
        Send a message, and give the bytes of one that comes.
    seal
        Takes the seals of what goes to the node from now on, and of what comes; None where nothing is sealed.

    Raises
    ------
    NodeError
        If the node refuses, or is not the one that knows the key.
    """
    nonce = secrets.token_hex(NONCE_BYTES)
    try:
        say(HelloMessage(versions=(VERSION, VERSION), nonce=nonce))
        hello = _parse_hello(_accepted(hear()))
        if not hmac.compare_digest(hello.proof.encode(), prove(key, "node", nonce, hello.nonce).encode()):
            raise NodeError("who answers there doesn't know the contact file's key: the file belongs to other nodes")
        say(ProveMessage(proof=prove(key, "peer", nonce, hello.nonce)))
        if seal is not None:
            # Before the answer, which the node seals already.
            seal(*seals(key, nonce, hello.nonce))
        _accepted(hear())
    except ProtocolError as error:
        raise NodeError(f"who answers there is no node of this version ({error})") from None


def _accepted(payload: bytes) -> bytes:
    verdict = parse_verdict(payload)
    if not verdict.ok:
        raise NodeError(printable(verdict.error))
    return payload
