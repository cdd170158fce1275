"""What an IOnode does when its master commands it."""

import errno
import threading
from contextlib import contextmanager, nullcontext

import pytest

from bbflow.errors import ProtocolError, SourceError
from bbflow.files.client.calling import address_of
from bbflow.files.commands import DropCommand, FetchCommand, FillCommand, UploadCommand
from bbflow.files.ionode.commanded import Transfers
from bbflow.files.ionode.fills import Fills
from bbflow.files.ionode.storage import Storage
from bbflow.files.pieces import Pieces
from bbflow.staging.retry import Retry
from testsupport.waiting import PATIENCE_S


def at_once(_):
    return nullcontext()


def transfers_of(directory, addresses, gate=at_once, pieces_type=Pieces):
    pieces, storage = pieces_type(directory), Storage(str(directory / "storage"))
    return Transfers("io", pieces, Fills(pieces, storage, gate, 1), storage, lambda: addresses, at_once)


def test_an_upload_in_pieces_of_no_bytes_is_refused(tmp_path):
    command = UploadCommand(task=1, path="f", size=1000, pieces=(), piece_bytes=0, ring=(), replicas=1, over=None)
    with pytest.raises(ProtocolError, match="1000 bytes in pieces of 0"):
        transfers_of(tmp_path, {}).slow[UploadCommand](command, print)


def test_a_copy_that_has_missed_what_was_appended_is_not_written_back(tmp_path):
    pieces, storage = Pieces(tmp_path), Storage(f"file://{tmp_path}/store", Retry(attempts=1))
    transfers = Transfers("io", pieces, Fills(pieces, storage, at_once, 1), storage, dict, at_once)
    pieces.write("1.0", 0, memoryview(b"kept"), make=True)
    command = UploadCommand(
        task=1, path="f", size=8, pieces=((1, 8),), piece_bytes=64, ring=("io",), replicas=1, over=None
    )
    with pytest.raises(SourceError, match=r"piece 1\.0 has 4 of 8 bytes"):
        transfers.slow[UploadCommand](command, print)
    assert not (tmp_path / "store/f").exists()


@pytest.mark.parametrize(("has", "reason"), [(True, "4 of 8 bytes"), (False, "No such file")])
def test_a_copy_that_another_node_has_not_in_full_leaves_nothing(servers, tmp_path, has, reason):
    client = servers.start(storage=False)
    client.write("/f", b"kept")
    (session,) = client.masters()
    told = session.node("master-io0")
    (piece,) = (servers.directory / "master-io0/pieces").iterdir()
    transfers = transfers_of(tmp_path, {told.name: address_of(told, session.key)})
    command = FetchCommand(task=1, key=piece.name if has else "1.0", bytes=8, node=told)
    with pytest.raises(OSError, match=reason):
        transfers.slow[FetchCommand](command, print)
    assert not list((tmp_path / "pieces").iterdir())


def test_the_master_hears_of_a_piece_that_it_drops_while_it_comes(tmp_path):
    may_pass, answers = threading.Event(), []

    @contextmanager
    def gate(_):
        may_pass.wait(PATIENCE_S)
        yield

    transfers = transfers_of(tmp_path, {}, gate)
    command = FillCommand(task=1, path="f", key="1.0", start=0, bytes=8, facts=(8, ""), urgent=False)
    transfers.slow[FillCommand](command, answers.append)
    transfers.quick[DropCommand](DropCommand(task=2, keys=("1.0",)))
    may_pass.set()
    assert [(answer.done, answer.errno) for answer in answers] == [(False, None), (True, errno.ESTALE)]


@pytest.mark.parametrize("before", ["drop", "finish"])
def test_an_ionode_that_is_killed_while_it_drops_a_piece_that_was_to_come_has_none_of_it(tmp_path, before):

    def killed(_, key):
        raise KeyboardInterrupt(key)

    transfers = transfers_of(tmp_path, {}, pieces_type=type("Dying", (Pieces,), {before: killed}))
    Pieces(tmp_path).begin("1.0", 10)
    with pytest.raises(KeyboardInterrupt, match=r"1\.0"):
        transfers.quick[DropCommand](DropCommand(task=1, keys=("1.0",)))
    assert Pieces(tmp_path).inventory() == []
