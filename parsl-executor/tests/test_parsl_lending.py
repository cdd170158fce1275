"""Copies that nodes get from each other: on this host a node is a directory, with its own lender."""

import errno
import json
import logging
import os
import resource
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from bbflow_parsl.node import NodeSettings, Route, WorkerNode
from bbflow_parsl.nodestore import shelves_of
from parsl import python_app
from parsl.data_provider.files import File
from parsl.providers import LocalProvider

from bbflow.errors import ConfigError, NodeError
from bbflow.lending.exchange import RunningExchange
from bbflow.lending.lender import ADDRESS
from testsupport.range_server import RangeServer
from testsupport.waiting import until

SIZE = 9 << 20
"""More than two parts."""


@pytest.fixture
def exchange():
    with RunningExchange("127.0.0.1") as found:
        yield found


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "pfs" / "field.nc"
    path.parent.mkdir()
    path.write_bytes(os.urandom(1000) * (SIZE // 1000) + b"end")
    return path


class Nodes:
    """Nodes of a run."""

    def __init__(self, root, exchange):
        self.root, self.exchange, self.nodes = root, exchange, []

    def new(self, capacity_bytes=2 * SIZE, exchange=None):
        directory = str(self.root / f"node{len(self.nodes)}")
        settings = NodeSettings(directory, "run", capacity_bytes, 2, 1, 2, exchange=exchange or self.exchange.address)
        self.nodes.append(WorkerNode(settings))
        return self.nodes[-1]


def lender_of(node):
    """Its process."""
    port = int(json.loads((node.directory / ADDRESS).read_text())["tcp"].rpartition(":")[2])
    [found] = [
        each.pid for each in psutil.net_connections("tcp") if each.laddr.port == port and each.status == "LISTEN"
    ]
    return psutil.Process(found)


@pytest.fixture
def nodes(tmp_path, exchange):
    found = Nodes(tmp_path / "nodes", exchange)
    yield found
    for node in found.nodes:
        node.close()
    until(lambda: not list(found.root.glob("*/bbflow-node-*")), "a node's directory stays")


def fetch(node, path):
    [copy] = node.look([Route(str(path), str(path))])
    with node.holding([copy], {}):
        return node.fetch(copy), copy


def tamper(node, copy):
    """Change a node's copy, so that what comes from there is known again."""
    path = shelves_of(node.directory).file(copy.name)
    path.chmod(0o600)
    with path.open("r+b") as file:
        file.write(b"of the node")


def test_a_node_copies_from_another_that_has_the_file(nodes, source):
    one, two = nodes.new(), nodes.new()
    _, copy = fetch(one, source)
    tamper(one, copy)
    path, _ = fetch(two, source)
    assert path.name == "field.nc"
    content = source.read_bytes()
    assert path.read_bytes() == b"of the node" + content[11:]
    assert path.stat().st_mode & 0o222 == 0
    three = nodes.new()
    assert fetch(three, source)[0].read_bytes() == path.read_bytes()


def test_a_new_version_of_a_source_is_read_there(nodes, source):
    one, two = nodes.new(), nodes.new()
    fetch(one, source)
    source.write_bytes(b"new")
    assert fetch(two, source)[0].read_bytes() == b"new"


def test_an_empty_file_comes_from_a_node_too(nodes, source):
    source.write_bytes(b"")
    for node in (nodes.new(), nodes.new()):
        assert fetch(node, source)[0].read_bytes() == b""


def test_a_copy_that_a_nodes_disk_does_not_take_whole_is_an_error(nodes, source):
    one, two = nodes.new(), nodes.new()
    fetch(one, source)
    most, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (source.stat().st_size - 1, hard))
    try:
        with pytest.raises(OSError, match=os.strerror(errno.EFBIG)):
            fetch(two, source)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    assert fetch(two, source)[0].read_bytes() == source.read_bytes()


def test_what_a_node_had_to_give_up_comes_from_the_source(nodes, source):
    one, two = nodes.new(capacity_bytes=SIZE + 10), nodes.new()
    _, copy = fetch(one, source)
    other = source.with_name("other.nc")
    other.write_bytes(bytes(SIZE))
    fetch(one, other)
    assert shelves_of(one.directory).file(copy.name) is None
    assert fetch(two, source)[0].read_bytes() == source.read_bytes()


def test_a_file_comes_from_its_source_where_the_lender_was_killed(nodes, source, caplog):
    one, two = nodes.new(), nodes.new()
    fetch(one, source)
    lender_of(one).kill()
    with caplog.at_level(logging.WARNING):
        assert fetch(two, source)[0].read_bytes() == source.read_bytes()
    assert "is asked for elsewhere" in caplog.text


def test_files_come_from_their_sources_when_the_exchange_is_gone(nodes, exchange, source, caplog):
    one, two = nodes.new(), nodes.new()
    fetch(one, source)
    exchange._process.kill()
    with caplog.at_level(logging.WARNING):
        assert fetch(two, source)[0].read_bytes() == source.read_bytes()
    assert "no copies are had from other nodes" in caplog.text


def test_who_does_not_know_the_runs_key_is_not_let_in(nodes, exchange, source, caplog):
    one, two = nodes.new(), nodes.new(exchange=replace(exchange.address, key="0" * 64))
    _, copy = fetch(one, source)
    tamper(one, copy)
    with caplog.at_level(logging.WARNING):
        assert fetch(two, source)[0].read_bytes() == source.read_bytes()
    assert "no copies are had from other nodes" in caplog.text


def test_what_one_node_made_another_copies_from_there(nodes, source):
    one, two = nodes.new(), nodes.new()
    route = Route(str(source), str(source.with_name("made")))
    with one.holding([], {"out": route}):
        one.output_path("out", route).write_bytes(b"made by a task")
        one.deliver("out", route)
    [copy] = two.look([route])
    tamper(one, copy)
    assert fetch(two, route.place)[0].read_bytes() == b"of the nodeask"


def test_an_address_that_is_not_this_hosts_is_one_clear_line(tmp_path):
    with pytest.raises(NodeError, match=r"peers='192\.0\.2\.1': can't listen at 192"):
        RunningExchange("192.0.2.1")


def test_peers_without_burst_buffers_of_nodes_are_refused(site):
    with pytest.raises(ConfigError, match="it is for nodes with a burst buffer of their own"):
        replace(site.burst_buffer, peers="127.0.0.1")


@pytest.fixture
def server(site, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), str(Path(__file__).parents[2])]))
    with RangeServer(site.pfs) as found:
        yield found


@python_app
def meet(meeting, count, inputs=()):
    """Return where this ran and what it read, once this many tasks are running."""
    import os
    import time

    Path(meeting, str(os.getpid())).touch()
    until_s = time.monotonic() + 100
    while len(os.listdir(meeting)) < count and time.monotonic() < until_s:
        time.sleep(0.01)
    with open(inputs[0]) as file:
        return os.environ["PARSL_WORKER_BLOCK_ID"], file.read()


def test_tasks_of_parsl_on_two_nodes_ask_a_files_source_once(site, server, tmp_path):
    site.write("a.txt", "a" * 1000)
    (tmp_path / "meeting").mkdir()
    found = tmp_path / "nodes"
    burst_buffer = {"directory": None, "node_directory": f"{found}/$PARSL_WORKER_BLOCK_ID", "peers": "127.0.0.1"}
    provider = LocalProvider(init_blocks=2, max_blocks=2)
    with site.load(site.htex(workers=1, provider=provider, lookahead=0, **burst_buffer)):
        met = [meet(str(tmp_path / "meeting"), 2, inputs=[File(f"{server.url}/a.txt")]) for _ in range(2)]
        blocks, contents = zip(*(each.result(200) for each in met), strict=True)
    assert set(blocks) == {"0", "1"}, "both nodes had work"
    assert contents == ("a" * 1000,) * 2
    assert [length for _, _, length in server.gets if length > 1] == [1000], "the others look for its version only"
    until(lambda: not list(found.glob("*/bbflow-node-*")), "a node's directory stays")
