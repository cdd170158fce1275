"""How both sides of a connection prove that they know the contact file's key (FORMAT.md, 'Handshake')."""

import hashlib
import hmac
import secrets
from collections.abc import Callable

from bbflow.errors import NodeError, ProtocolError
from bbflow.records import Message

VERSION = 3
MAX_FRAME_BYTES = 4096
"""Longest frame before the peer has proved itself."""
TIMEOUT_S = 10.0
"""How long a peer may take to prove itself."""
NONCE_BYTES = 16


def new_key() -> str:
    """Make a secret for a contact file: 64 hexadecimal digits."""
    return secrets.token_hex(32)


def prove(key: str, side: str, peer_nonce: str, node_nonce: str) -> str:
    """Give the proof of one side.

    Parameters
    ----------
    key
        The contact file's key.
    side
        ``"node"`` or ``"peer"``.
    peer_nonce, node_nonce
        What each side has thrown its dice for.

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
        Keys of the last reply: who the node is.
    """

    def __init__(self, key: str, identity: Message) -> None:
        self._key = key
        self._identity = identity
        self._nonce = secrets.token_hex(NONCE_BYTES)
        self._peer_nonce: str | None = None
        self.done = False
        """Whether the peer has proved that it belongs here."""

    def answer(self, message: Message) -> Message:
        """Take the peer's next message in and give the reply; one that isn't `ok` ends the connection.

        Raises
        ------
        ProtocolError
            If it is no handshake at all.
        """
        match message:
            case {"op": "hello", "versions": [int(low), int(high)], "nonce": str(nonce)} if self._peer_nonce is None:
                if not low <= VERSION <= high:
                    return _refuse(f"the peer speaks versions {low} to {high} of the format, the node {VERSION}")
                if len(nonce) != 2 * NONCE_BYTES:
                    raise ProtocolError("a handshake with a nonce of a wrong length")
                self._peer_nonce = nonce
                proof = prove(self._key, "node", nonce, self._nonce)
                return {"ok": True, "version": VERSION, "nonce": self._nonce, "proof": proof}
            case {"op": "prove", "proof": str(proof)} if self._peer_nonce is not None:
                expected = prove(self._key, "peer", self._peer_nonce, self._nonce)
                if not hmac.compare_digest(proof.encode(), expected.encode()):
                    return _refuse("the peer doesn't know the contact file's key")
                self.done = True
                return {"ok": True, **self._identity}
        raise ProtocolError("a connection that doesn't begin with a handshake")


def _refuse(error: str) -> Message:
    return {"ok": False, "error": error}


def shake_hands(key: str, exchange: Callable[[Message], Message]) -> None:
    """Be the peer's side of a new connection.

    Parameters
    ----------
    key
        The contact file's key.
    exchange
        Sends a message and gives the reply.

    Raises
    ------
    NodeError
        If the node refuses, or is not the one that knows the key.
    """
    nonce = secrets.token_hex(NONCE_BYTES)
    hello = exchange({"op": "hello", "versions": [VERSION, VERSION], "nonce": nonce})
    if not hello.get("ok"):
        raise NodeError(str(hello.get("error", "the node refused and gave no reason")))
    node_nonce = str(hello.get("nonce"))
    if not hmac.compare_digest(str(hello.get("proof")).encode(), prove(key, "node", nonce, node_nonce).encode()):
        raise NodeError("who answers there doesn't know the contact file's key: the file is of other nodes")
    verdict = exchange({"op": "prove", "proof": prove(key, "peer", nonce, node_nonce)})
    if not verdict.get("ok"):
        raise NodeError(str(verdict.get("error", "the node refused and gave no reason")))
