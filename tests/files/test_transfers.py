"""What an IOnode does when its master commands it."""

from contextlib import nullcontext

import pytest

from bbflow.errors import ProtocolError
from bbflow.files.commands import UploadCommand
from bbflow.files.fills import Fills
from bbflow.files.pieces import Pieces
from bbflow.files.storage import Storage
from bbflow.files.transfers import Transfers


def at_once(_):
    return nullcontext()


@pytest.fixture
def transfers(tmp_path):
    pieces, storage = Pieces(tmp_path), Storage(str(tmp_path / "storage"))
    return Transfers("io", pieces, Fills(pieces, storage, at_once, 1), storage, dict, at_once)


def test_an_upload_in_pieces_of_no_bytes_is_refused(transfers):
    command = UploadCommand(task=1, path="f", size=1000, pieces=(), piece_bytes=0, ring=(), replicas=1)
    with pytest.raises(ProtocolError, match="1000 bytes in pieces of 0"):
        transfers.slow[UploadCommand](command, print)
