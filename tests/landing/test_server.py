"""A real node process over its Unix and TCP sockets: who gets in, and how bytes land and are read."""

import resource
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path

import numpy as np
import psutil
import pytest

from bbflow.errors import NodeError, StreamError
from bbflow.landing.client import NodeClient
from bbflow.landing.embedded import EmbeddedNodes, spawn_node, wait_until_ready
from bbflow.net.contact import contact_key, new_key, read_contact
from bbflow.net.frames import encode
from bbflow.net.listen import is_loopback, public_address, split_address
from bbflow.reading.wire_types import VERSION
from testsupport.asking import RawClient, answer, ask, ask_once
from testsupport.peers import OPEN, PAGE, content_of
from testsupport.processes import agent_of
from testsupport.waiting import until

STREAM = "weather"


@pytest.fixture
def short():
    with tempfile.TemporaryDirectory(prefix="bb-", dir="/dev/shm") as directory:
        yield Path(directory)


@pytest.fixture
def embedded(short):
    with EmbeddedNodes(1, 64 * PAGE, short) as nodes:
        yield nodes


@pytest.fixture
def remote(embedded, far):
    """The node as a program on another host sees it."""
    return replace(embedded.nodes[0], host="elsewhere")


def log_of(node):
    return (Path(node.directory).parent / f"{node.name}.log").read_text()


def open_stream(client, **more):
    keys = {"stream": STREAM, "rank": 0, "writers": 1, "local_writers": 1, "policy": "Block"}
    return ask(client, "open", **OPEN | keys | {"transport": "tcp"} | more)


def commit(client, step, offset, count, attributes=()):
    block = {"name": "v", "type": "uint8_t", "kind": "LocalArray", "count": [count], "offset": offset, "bytes": count}
    message = {"op": "commit", "step": step, "attributes": list(attributes), "open_s": 0.0, "waited_s": 0.0}
    client.ask(message | content_of([block]))


@pytest.mark.parametrize("where", ["unix", "tcp"])
def test_a_wrong_secret_is_refused_and_logged(embedded, remote, where):
    node = replace(embedded.nodes[0] if where == "unix" else remote, key=new_key())
    with pytest.raises(NodeError, match="doesn't know the contact file's key"):
        NodeClient(node)
    assert ask_once(embedded.nodes[0], "status")["streams"] == {}


def test_who_sends_a_wrong_proof_is_logged_with_where_it_came_from(embedded):
    node = embedded.nodes[0]
    with socket.create_connection(split_address(node.tcp)) as peer:
        peer.sendall(encode({"op": "hello", "versions": [VERSION, VERSION], "nonce": "0" * 32}))
        peer.recv(4096)
        peer.sendall(encode({"op": "prove", "proof": "0" * 64}))
        while peer.recv(4096):
            pass
        port = peer.getsockname()[1]
    assert f"cut off a peer at 127.0.0.1 port {port}: the peer doesn't know" in log_of(node)
    assert node.key not in log_of(node)


@pytest.mark.parametrize(
    "first",
    [
        encode({"op": "stop", "force": True}),
        struct.pack("<II", 5000, 0),
        struct.pack("<II", 0xFFFFFFFF, 0),
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
def test_a_peer_without_the_key_is_cut_off_at_its_first_words(embedded, first):
    node = embedded.nodes[0]
    with socket.create_connection(split_address(node.tcp)) as peer:
        peer.settimeout(300)
        peer.sendall(first)
        assert peer.recv(4096) == b""
    assert "cut off a peer" in log_of(node)
    assert ask_once(node, "status")["name"] == "bb0"


def test_the_secret_stands_in_no_process_s_arguments(embedded):
    arguments = " ".join(" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"]))
    assert str(Path(embedded.nodes[0].directory).parent) in arguments
    assert embedded.nodes[0].key not in arguments


def test_bytes_over_tcp_land_in_the_pool_and_are_read_back_the_same(embedded, remote):
    raw = np.random.default_rng(1).integers(0, 256, 8 * PAGE, "u1").tobytes()
    with RawClient(remote) as writer, NodeClient(remote) as reader:
        open_stream(writer)
        ((offset, _),) = ask(writer, "begin", step=0, bytes=len(raw))["extents"]
        for at in range(0, len(raw), 3 * PAGE):
            writer.send_raw(offset + at, raw[at : at + 3 * PAGE])
        assert ask(writer, "sync") == {"bad": []}
        commit(writer, 0, offset, len(raw))
        ask(writer, "close", steps=1)
        ask(reader, "join", stream=STREAM, after=-1)
        got = bytearray(len(raw))
        reader.get(0, offset, memoryview(got))
    assert bytes(got) == raw
    pool = Path(embedded.nodes[0].pool).read_bytes()
    assert pool[offset : offset + len(raw)] == raw


def test_damaged_bytes_are_asked_for_again(remote):
    raw = bytes(range(256)) * 16
    with RawClient(remote) as writer:
        open_stream(writer)
        ((offset, _),) = ask(writer, "begin", step=0, bytes=len(raw))["extents"]
        writer.send_raw(offset, raw, sent=bytes([raw[0] ^ 1]) + raw[1:])
        assert ask(writer, "sync") == {"bad": [offset]}
        writer.send_raw(offset, raw)
        assert ask(writer, "sync") == {"bad": []}


def test_a_damaged_frame_counts_as_a_broken_network_and_the_rank_may_come_back(embedded, remote):
    with RawClient(remote) as writer:
        open_stream(writer)
        frame = bytearray(writer.frame({"op": "sync"}))
        frame[-1] ^= 1
        writer.send(frame)
        with pytest.raises(NodeError, match=r"gone|closed"):
            ask(writer, "sync")
    assert ask_once(embedded.nodes[0], "status")["streams"][STREAM]["ranks"] == [[0, "away"]]
    with RawClient(remote) as writer:
        assert open_stream(writer, resume=True)["committed"] == -1


def test_bytes_for_a_place_that_was_not_given_cut_the_peer_off(remote):
    with RawClient(remote) as writer:
        open_stream(writer)
        ((offset, size),) = ask(writer, "begin", step=0, bytes=PAGE)["extents"]
        writer.send_raw(offset + size, b"x")
        with pytest.raises((StreamError, NodeError), match=r"was not given|gone|closed"):
            ask(writer, "sync")


def test_a_node_that_listens_on_loopback_only_says_so_to_another_host(embedded):
    with pytest.raises(NodeError, match=r"serves its own host .* only: start it with --listen"):
        NodeClient(replace(embedded.nodes[0], host="elsewhere"))


def test_a_killed_node_carries_on_from_its_directory_with_the_same_secret(short):
    contact = short / "contact.json"
    for _ in range(2):
        process = spawn_node("bb0", short, 64 * PAGE, contact)
        wait_until_ready("bb0", contact, process, short / "bb0.log")
        (node,) = read_contact(contact)
        with NodeClient(node) as client:
            if "streams" not in locals():
                open_stream(client)
                ((offset, size),) = ask(client, "begin", step=0, bytes=PAGE)["extents"]
            streams = ask(client, "status")["streams"]
            process.kill()
            process.wait()
    assert streams[STREAM]["status"] == "open"
    assert (offset, size) == (0, PAGE)
    assert contact_key(contact) == node.key


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("10.0.0.1", ("10.0.0.1", 0)),
        ("n1:80", ("n1", 80)),
        ("[::1]:7", ("::1", 7)),
        ("::1", ("::1", 0)),
        ("[::1]", ("::1", 0)),
    ],
)
def test_an_address_is_taken_apart(address, parts):
    assert split_address(address) == parts


def test_a_wildcard_address_is_told_as_the_host_s_name():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert public_address(listener, "0.0.0.0") == f"{socket.gethostname()}:{port}"
        assert public_address(listener, "10.0.0.9") == f"10.0.0.9:{port}"
        assert public_address(listener, "::1") == f"[::1]:{port}"
    assert is_loopback("127.0.0.1:5")
    assert is_loopback("[::1]:5")
    assert not is_loopback("10.0.0.1:5")


@pytest.fixture
def certificates(short):
    """An authority, and a node's certificate for 127.0.0.1 that it signed."""
    if subprocess.run(["which", "openssl"], capture_output=True, check=False).returncode:
        pytest.skip("openssl is not installed: apt install openssl")
    subject = ["-nodes", "-days", "2", "-newkey", "rsa:2048", "-subj"]
    files = {name: short / f"{name}.pem" for name in ("ca", "ca_key", "node", "node_key")}
    own = ["openssl", "req", "-x509", *subject, "/CN=authority", "-keyout", files["ca_key"], "-out", files["ca"]]
    subprocess.run(own, check=True, capture_output=True)
    signed = ["openssl", "req", "-x509", *subject, "/CN=node", "-addext", "subjectAltName=IP:127.0.0.1"]
    signed += ["-addext", "basicConstraints=critical,CA:FALSE", "-CA", files["ca"], "-CAkey", files["ca_key"]]
    subprocess.run([*signed, "-keyout", files["node_key"], "-out", files["node"]], check=True, capture_output=True)
    return files


@pytest.fixture
def over_tls(short, certificates, far):
    """A node as a program on another host sees it, which speaks TLS with it; and its process."""
    tls = {"certificate": "node", "key": "node_key", "authority": "ca"}
    options = [str(word) for name, file in tls.items() for word in (f"--tls-{name}", certificates[file])]
    process = spawn_node("bb0", short, 64 * PAGE, short / "contact.json", options=options)
    try:
        wait_until_ready("bb0", short / "contact.json", process, short / "bb0.log")
        yield replace(read_contact(short / "contact.json")[0], host="elsewhere"), process
    finally:
        process.kill()
        process.wait()


def test_tls_is_spoken_with_who_checks_the_authority_and_with_nobody_else(over_tls, certificates):
    node, _ = over_tls
    raw = bytes(range(256)) * 200
    with RawClient(node) as client:
        assert client.speaks_tls
        open_stream(client)
        ((offset, _),) = ask(client, "begin", step=0, bytes=len(raw))["extents"]
        client.send_raw(offset, raw)
        assert ask(client, "sync") == {"bad": []}
    with pytest.raises(NodeError):
        NodeClient(replace(node, tls=""))
    with pytest.raises(NodeError, match="certificate isn't accepted"):
        NodeClient(replace(node, tls=str(certificates["node"])))


def test_a_peer_that_resets_before_it_is_let_in_does_not_hurt_the_node(over_tls):
    node, process = over_tls
    process.send_signal(signal.SIGSTOP)
    for _ in range(3):
        with socket.create_connection(split_address(node.tcp)) as peer:
            peer.sendall(b"x")
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    process.send_signal(signal.SIGCONT)
    with NodeClient(node) as client:
        assert ask(client, "status")["name"] == "bb0"


def test_a_stream_that_was_not_joined_is_not_read(remote):
    with NodeClient(remote) as client, pytest.raises((NodeError, StreamError)):
        client.get(0, 0, memoryview(bytearray(8)))


@contextmanager
def node_of_its_own(directory, log, begin=None, program=("-m", "bbflow")):
    """Start a node whose words go where we say."""
    words = [sys.executable, *program, "node", "--name", "bb0", "--directory", str(directory)]
    words += ["--capacity", str(64 * PAGE), "--contact", str(directory / "contact.json")]
    with log.open("wb") as file:
        process = subprocess.Popen(words, stderr=file, preexec_fn=begin)
    try:
        wait_until_ready("bb0", directory / "contact.json", process, directory / "bb0.log")
        (node,) = read_contact(directory / "contact.json")
        yield node
    finally:
        process.terminate()
        process.wait()


def test_a_node_with_few_descriptors_answers_beside_many_who_stay_silent(short):
    """Each keeps its connection and says nothing: the one that has been silent for longest makes room."""
    few = partial(resource.setrlimit, resource.RLIMIT_NOFILE, (80, 80))
    log = short / "bb0.log"
    with node_of_its_own(short, log, few) as node, ExitStack() as stack:
        for number in range(120):
            stack.enter_context(socket.create_connection(split_address(node.tcp)))
            if number % 40 == 0:
                trusted = stack.enter_context(NodeClient(node))
        assert ask_once(node, "status")["name"] == "bb0"
        assert ask(trusted, "status")["name"] == "bb0"
        until(lambda: "others wait for its place" in log.read_text())


def test_a_node_whose_log_has_no_room_serves_on(short):
    (short / "bb0.log").touch()
    with node_of_its_own(short, Path("/dev/full")) as node:
        with socket.create_connection(split_address(node.tcp)) as peer:
            peer.settimeout(300)
            peer.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert peer.recv(4096) == b""
        assert ask_once(node, "status")["name"] == "bb0"


OFTEN = ["-c", "from bbflow import cli; from bbflow.net import peers; peers.LOOK_S = 0.05; cli.main()"]
"""Starts a node that looks around twenty times a second."""


def test_a_node_whose_socket_was_removed_makes_it_again(short):
    log = short / "bb0.log"
    with node_of_its_own(short, log, program=OFTEN) as node, NodeClient(node) as before:
        for _ in range(2):
            Path(node.socket).unlink()
            until(Path(node.socket).exists)
            NodeClient(node).close()
        assert before.status().name == "bb0"
    assert f"{node.socket} was removed, and is made again" in log.read_text()


def test_a_node_whose_socket_was_removed_waits_for_a_descriptor(short):
    with node_of_its_own(short, short / "bb0.log", program=OFTEN) as node, NodeClient(node) as before:
        agent = agent_of(node)
        limits = agent.rlimit(psutil.RLIMIT_NOFILE)
        free = next(number for number in count() if not Path(f"/proc/{agent.pid}/fd/{number}").is_symlink())
        agent.rlimit(psutil.RLIMIT_NOFILE, (free, limits[1]))
        Path(node.socket).unlink()
        for _ in range(20):
            time.sleep(0.02)
            before.status()
        agent.rlimit(psutil.RLIMIT_NOFILE, limits)
        until(Path(node.socket).exists)


def test_peers_of_a_node_whose_file_system_is_full_wait_for_room(embedded):
    (node,) = embedded.nodes
    agent = agent_of(node)
    limits = agent.rlimit(psutil.RLIMIT_FSIZE)
    agent.rlimit(psutil.RLIMIT_FSIZE, ((Path(node.directory) / "index").stat().st_size, limits[1]))
    with ThreadPoolExecutor(1) as pool:
        keys = {"stream": STREAM, "consumers": ["fold"], "owner": "", "take_over": False}
        asked = pool.submit(ask_once, node, "attach", **keys)
        with pytest.raises(TimeoutError):
            asked.result(0.5)
        agent.rlimit(psutil.RLIMIT_FSIZE, limits)
        assert asked.result(30)["epoch"] == 1


def test_it_is_a_peer_s_turn_again_with_what_came_before_its_turn_ended(short):
    program = ["-c", "from bbflow import cli; from bbflow.net import link; link.TURN_BYTES = 1500; cli.main()"]
    with node_of_its_own(short, short / "bb0.log", program=program) as node, RawClient(node) as writer:
        open_stream(writer)
        ((offset, _),) = ask(writer, "begin", step=0, bytes=PAGE)["extents"]
        message = {"op": "data", "offset": offset, "bytes": 1000, "check": bytes(16)}
        parts = [writer.frame(message) + bytes(1000) for _ in range(2)]
        writer.send(b"".join(parts) + writer.frame({"op": "sync"}))
        assert answer(writer) == {"bad": [offset]}


def test_a_reply_that_no_frame_can_hold_is_an_error_for_its_peer_alone(short):
    """A node whose frames are short tells of an attribute twice, while it serves the rank that brought it."""
    small = "from bbflow.net import frames; frames.MAX_PAYLOAD_BYTES = 1 << 14; from bbflow import cli; cli.main()"
    log = short / "bb0.log"
    with node_of_its_own(short, log, program=["-c", small]) as node, NodeClient(node) as writer:
        open_stream(writer)
        with NodeClient(node) as analysis:
            watch = {"op": "watch", "stream": STREAM, "after": -1, "limit": 256, "timeout_s": 300.0}
            change = ask(analysis, **watch, change=-1)["change"]
            analysis.ask(watch | {"change": change}, within_s=300)
            ((offset, _),) = ask(writer, "begin", step=0, bytes=PAGE)["extents"]
            commit(writer, 0, offset, PAGE, attributes=[{"name": "a", "type": "string", "value": "x" * 10000}])
            with pytest.raises(StreamError, match="is above the limit of 16384"):
                answer(analysis)
        assert ask(writer, "close", steps=1) == {}
