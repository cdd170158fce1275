"""An IOnode and a master that the test plays."""

import os
import socket
from contextlib import nullcontext

import pytest

from bbflow.files.ionode.conversation import Conversation
from bbflow.files.pieces import Pieces
from bbflow.net.contact import NodeAddress, add_master, contact_key
from bbflow.net.frames import encode
from bbflow.net.handshake import WelcomeReply
from bbflow.net.listen import listen_unix

PATIENCE_S = 60.0
MASTER = WelcomeReply(name="master", host="h")


@pytest.mark.parametrize("said", [encode(MASTER), bytes(64)], ids=["unknown", "damaged"])
def test_an_ionode_comes_back_to_a_master_that_has_said_what_is_no_command(servers, said):
    path, key = servers.directory / "master.sock", contact_key(servers.contact)
    here = (socket.gethostname(), str(path), str(servers.directory))
    add_master(servers.contact, "/", NodeAddress("master", *here, key))
    with listen_unix(path) as listener:
        listener.settimeout(PATIENCE_S)
        servers.spawn("io", "ionode", "--name", "io", "--capacity", "1MiB")
        for _ in range(2):
            peer, _ = listener.accept()
            with Conversation(peer, key, MASTER, None, PATIENCE_S):
                peer.settimeout(PATIENCE_S)
                assert b"ionode" in peer.recv(1 << 16)
                peer.sendall(said)
                assert peer.recv(1) == b""  # it has hung up


def test_a_piece_that_goes_while_all_are_listed_takes_no_other_with_it(tmp_path, monkeypatch):
    pieces, scandir = Pieces(tmp_path), os.scandir
    for key in ("1.0", "2.0"):
        pieces.cut(key, 10)

    def late(path):
        with scandir(path) as entries:
            listed = list(entries)
        pieces.drop("1.0")
        return nullcontext(listed)

    monkeypatch.setattr(os, "scandir", late)
    assert pieces.inventory() == [("2.0", 10)]
