"""A program that isn't meant to be here: tries what it can at each port, and tells what it was given.

Arguments: user id to become, certificate to show (or -), addresses ``host:port``. Standard output gets a JSON list of
``[address, attempt, what came as text]``, only those where something came; then each file below /dev/shm that it could
read and each Unix socket that it could open, as ``[path, "read" or "connect", ""]``.
"""

import asyncio
import json
import os
import secrets
import socket
import ssl
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from distributed.comm import connect
from distributed.security import Security

from bbflow.net.certifying import new_certificate
from bbflow.net.frames import encode
from bbflow.net.handshake import prove
from bbflow.reading.wire_types import VERSION

PATIENCE_S = 10.0
SILENCE_S = 2.0
"""After this long without a byte nothing more is expected."""
PAGES = ("/", "/info/main/workers.html", "/health", "/metrics", "/json/identity.json", "/status", "/sitemap.json")
HANDSHAKE_TEXT = b"\x15\x03"
"""How a TLS alert begins: it says no more than that this is TLS."""


def plain(address, sent):
    """Return what comes for some bytes, or without any, from one who doesn't speak TLS."""
    with socket.create_connection(address, PATIENCE_S) as peer:
        peer.settimeout(SILENCE_S)
        peer.sendall(sent)
        return received(peer)


def received(peer):
    came = b""
    try:
        while chunk := peer.recv(65536):
            came += chunk
    except OSError:
        pass
    return b"" if came.startswith(HANDSHAKE_TEXT) else came


def encrypted(address, sent, certificate):
    """Return what comes over TLS; nothing if the other side ends the handshake."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if certificate:
        context.load_cert_chain(certificate)
    with socket.create_connection(address, PATIENCE_S) as raw, context.wrap_socket(raw) as peer:
        peer.settimeout(SILENCE_S)
        peer.sendall(sent)
        return received(peer)


async def as_dask(address, certificate, protocol):
    """Ask who is there as Dask's own programs do."""
    arguments = {}
    if certificate:
        arguments = Security(
            require_encryption=True, tls_ca_file=certificate, tls_client_cert=certificate
        ).get_connection_args("client")
    comm = await connect(f"{protocol}://{address[0]}:{address[1]}", timeout=PATIENCE_S, **arguments)
    try:
        await comm.write({"op": "identity", "reply": True})
        return repr(await asyncio.wait_for(comm.read(), PATIENCE_S)).encode()
    finally:
        comm.abort()


async def patient(attempt):
    """Bound an attempt: Dask waits forever for the rest of what an answer in another protocol seems to announce."""
    return await asyncio.wait_for(attempt, PATIENCE_S)


def attempts(certificate, forged):
    nonce = secrets.token_hex(16)
    hello = encode({"op": "hello", "versions": [VERSION, VERSION], "nonce": nonce})
    wrong = encode({"op": "prove", "proof": prove(secrets.token_hex(32), "peer", nonce, nonce)})
    yield "silence", lambda at: plain(at, b"")
    yield "node: status", lambda at: plain(at, encode({"op": "status"}))
    yield "node: a wrong proof", lambda at: plain(at, hello + wrong + encode({"op": "status"}))
    for page in PAGES:
        request = f"GET {page} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
        yield f"http {page}", lambda at, request=request: plain(at, request)
        yield f"https {page}", lambda at, request=request: encrypted(at, request, certificate or forged)
    yield "TLS without a certificate", lambda at: encrypted(at, b"hello", None)
    yield "dask without TLS", lambda at: asyncio.run(patient(as_dask(at, None, "tcp")))
    yield "dask with TLS", lambda at: asyncio.run(patient(as_dask(at, certificate or forged, "tls")))


def tried(address, attempt):
    host, _, port = address.rpartition(":")
    try:
        return attempt((host, int(port))).decode("latin-1")
    except (OSError, ssl.SSLError, TimeoutError, ValueError, EOFError):
        return ""


def tried_all(addresses, attempts):
    each = [(address, name, attempt) for address in addresses for name, attempt in attempts]
    with ThreadPoolExecutor(32) as pool:
        came = pool.map(lambda one: tried(one[0], one[2]), each)
        return [(address, name, text) for (address, name, _), text in zip(each, came, strict=True) if text]


def opened():
    for folder, _, files in os.walk("/dev/shm"):
        for path in (Path(folder, file) for file in files):
            try:
                if path.is_socket():
                    with socket.socket(socket.AF_UNIX) as peer:
                        peer.connect(str(path))
                    yield str(path), "connect", ""
                elif path.is_file():
                    path.open("rb").close()
                    yield str(path), "read", ""
            except OSError:
                continue


def main(uid, certificate, *addresses):
    with tempfile.NamedTemporaryFile(suffix=".pem") as forged:
        forged.write(new_certificate())
        forged.flush()
        os.fchown(forged.fileno(), int(uid), int(uid))
        os.setgroups([])
        os.setgid(int(uid))
        os.setuid(int(uid))
        shown = None if certificate == "-" else certificate
        print(json.dumps([*tried_all(addresses, list(attempts(shown, forged.name))), *opened()]))


if __name__ == "__main__":
    main(*sys.argv[1:])
