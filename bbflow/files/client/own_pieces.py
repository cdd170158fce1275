"""Pieces of IOnodes that this process may open by itself, since they are its user's and its session's."""

from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from bbflow.errors import ConfigError, NodeError
from bbflow.files.client.calling import Caller, address_of, is_here
from bbflow.files.commands import IonodeTold
from bbflow.files.pieces import SOCKET_NAME
from bbflow.host.held import HeldDirectory


def hold_pieces(told: IonodeTold, key: str) -> HeldDirectory | None:
    """Hold the directory of an IOnode's pieces, if it is this user's and a node with the key listens beside it.

    A master may name any directory: that of another node of this user's, too, for whose files its clients have no key.

    Parameters
    ----------
    told
        The IOnode, as its master tells of it.
    key
        The session's.

    Returns
    -------
    HeldDirectory or None
        None if the IOnode must be asked, since it is elsewhere, another user's, of another key, or away.
    """
    if not is_here(told):
        return None
    with suppress(ConfigError, NodeError, OSError), HeldDirectory.at(Path(told.directory)) as above:
        if above.is_shared:
            return None
        # By the held descriptor: the path could lead elsewhere by now.
        within = replace(told, socket=f"/proc/self/fd/{above.descriptor}/{SOCKET_NAME}")
        Caller(address_of(within, key)).close()
        pieces = above.directory("pieces")
        if not pieces.is_shared:
            return pieces
        pieces.close()
    return None
