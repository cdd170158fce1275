"""The seals of a connection over a network: only who has its key can make them (FORMAT.md, 'Seal')."""

import hashlib
import hmac
import struct

from bbflow.reading.wire_types import VERSION

_NONCE = struct.Struct("<IQ")
_FRAME, _RAW = 0, 1
TAG_BYTES = 16
_SIDES = ("peer", "node")


class Mac:
    """Against whoever is on the way: GMAC (NIST SP 800-38D) with AES-256, over what is numbered.

    Parameters
    ----------
    key
        The direction's own, 32 bytes: one key with one number twice would give it away.
    """

    size = TAG_BYTES

    def __init__(self, key: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # late: on one host it isn't needed

        self._cipher = AESGCM(key)
        self._numbers = [0, 0]

    def of_frame(self, payload: bytes) -> bytes:
        """Return the tag of the next frame."""
        return self._tag(_FRAME, payload)

    def of_raw(self, raw: memoryview) -> bytes:
        """Return the tag of the next raw bytes."""
        return self._tag(_RAW, raw)

    def _tag(self, kind: int, content: bytes | memoryview) -> bytes:
        nonce = _NONCE.pack(kind, self._numbers[kind])
        # Counted on both sides, never sent: what is repeated, left out or out of order doesn't fit.
        self._numbers[kind] += 1
        return self._cipher.encrypt(nonce, b"", content)


def seals(key: str, peer_nonce: str, node_nonce: str) -> tuple[Mac, Mac]:
    """Return the seals of a connection, that of the peer's words and that of the node's.

    Their keys are drawn from the contact file's by HKDF-SHA-256 (RFC 5869), so that no other connection has them.

    Parameters
    ----------
    key
        The contact file's key.
    peer_nonce, node_nonce
        The random number that each side has drawn for this connection.
    """
    drawn = hmac.digest((peer_nonce + node_nonce).encode(), bytes.fromhex(key), hashlib.sha256)
    # The byte 1 is HKDF's number of the block: a key needs no more than one.
    peer, node = (Mac(hmac.digest(drawn, f"bbflow {VERSION} {side}\x01".encode(), hashlib.sha256)) for side in _SIDES)
    return peer, node
