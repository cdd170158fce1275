"""Requests to a node by their names, as bytes of the format, with replies as the maps that they are there."""

from bbflow.errors import NodeError, StreamError
from bbflow.landing.client import NodeClient
from bbflow.net.frames import decode_map


def ask(client, op, **keys):
    """Send any request on a connection, and return its reply."""
    client._socket.settimeout(60)
    try:
        client._say({"op": op, **keys})
        reply = decode_map(client._hear())
    except OSError as error:
        raise NodeError(f"{client.node.name} is gone ({error})") from None
    if not reply.pop("ok"):
        raise StreamError(reply["error"])
    return reply


def ask_once(node, op, **keys):
    """Connect, send one request, return its reply."""
    with NodeClient(node) as client:
        return ask(client, op, **keys)
