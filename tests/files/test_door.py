"""Who connects to an IOnode and doesn't prove itself."""

import resource
import socket
import threading
import time
from contextlib import ExitStack, suppress
from functools import partial

import pytest

from bbflow.errors import NodeError, ProtocolError
from bbflow.files.client.calling import Caller, address_of
from bbflow.files.ionode.conversation import Conversation
from bbflow.files.ionode.door import Door
from bbflow.net import connection
from bbflow.net.contact import new_key
from bbflow.net.frames import encode
from bbflow.net.handshake import HelloMessage, WelcomeReply
from bbflow.net.listen import listen_tcp, split_address
from testsupport.waiting import until

FEW = 56


def test_an_ionode_with_few_descriptors_answers_beside_many_who_stay_silent(servers, monkeypatch):
    monkeypatch.setattr(connection, "is_loopback", lambda _: False)
    monkeypatch.setattr(connection, "_is_here", lambda told: told.name != "io")
    servers.start(nodes=0, storage=False)
    few = partial(resource.setrlimit, resource.RLIMIT_NOFILE, (FEW, FEW))
    servers.spawn("io", "ionode", "--name", "io", "--capacity", "1MiB", preexec_fn=few)
    (session,) = servers.client(1).masters()
    address = address_of(session.node("io"), session.key)

    def reach():
        with suppress(NodeError):
            return Caller(address)

    with ExitStack() as stack:
        for _ in range(FEW):
            stack.enter_context(socket.create_connection(split_address(address.tcp)))
        stack.enter_context(until(reach, "an answer beside the silent"))
    with servers.client() as client:
        client.write("/f", b"kept")
        assert client.read("/f") == b"kept"


def test_who_sends_its_proof_byte_by_byte_has_no_longer_for_it():
    ours, theirs = socket.socketpair()
    words = encode(HelloMessage(versions=(1, 1), nonce="0" * 32))

    def drip():
        with suppress(OSError):
            for at in range(len(words)):
                theirs.send(words[at : at + 1])
                time.sleep(0.05)

    dripping = threading.Thread(target=drip)
    dripping.start()
    with pytest.raises(ProtocolError, match=r"didn't prove itself within 0\.3 s"):
        Conversation(ours, new_key(), WelcomeReply(name="io", host="h"), None, 0.3)
    dripping.join()
    theirs.close()


def test_a_listener_that_the_system_refuses_to_serve_goes_on_later(monkeypatch):
    listener, met = listen_tcp("127.0.0.1"), threading.Event()
    refusals = iter([OSError(24, "Too many open files")] * 2)

    class Listener:
        def fileno(self):
            return listener.fileno()

        def accept(self):
            for refusal in refusals:
                raise refusal
            return listener.accept()

    def meet(peer, _):
        met.set()
        peer.close()
        raise ProtocolError("nobody is expected")

    threading.Thread(target=Door(Listener(), 8, meet, print).run, daemon=True).start()
    socket.create_connection(listener.getsockname()).close()
    assert met.wait(60)
    listener.close()
