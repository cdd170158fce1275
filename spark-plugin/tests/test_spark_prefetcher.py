"""The prefetcher, spoken to as Spark's processes do."""

import json
import socket
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from bbflow_spark.prefetcher import Prefetcher
from bbflow_spark.serving import served

from bbflow.errors import NodeError
from bbflow.events import EventLog
from bbflow.net.contact import read_contact
from bbflow.net.handshake import shake_hands
from bbflow.staging import Stager
from testsupport.waiting import PATIENCE_S, until

SIZE = 1000


class Peer:
    """A process of Spark."""

    def __init__(self, contact, key=None):
        (address,) = read_contact(contact)
        host, _, port = address.tcp.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), PATIENCE_S)
        self.lines = self.socket.makefile("rwb")
        try:
            self.said = self.heard = None
            shake_hands(key or address.key, self.say, lambda: msgspec.msgpack.encode(self.hear()), self.seal_with)
        except NodeError:
            self.close()
            raise

    def seal_with(self, said, heard):
        self.said, self.heard = said, heard

    def exchange(self, message):
        self.say(message)
        while (reply := self.hear()).get("wait"):
            pass
        return reply

    def say(self, message):
        text = msgspec.json.encode(message)
        self.lines.write((self.said.of_frame(text).hex().encode() + b" " if self.said else b"") + text + b"\n")
        self.lines.flush()

    def hear(self):
        line = self.lines.readline()
        if self.heard and line:
            tag, _, line = line.rstrip(b"\n").partition(b" ")
            assert self.heard.of_frame(line).hex().encode() == tag
        return json.loads(line)

    def tell(self, operation, **more):
        return self.exchange({"op": operation, "app": "a", "stage": 1, "attempt": 0, **more})

    def plan(self, *partitions, slots=1, **more):
        assert self.tell("plan", slots=slots, partitions=[[n, p] for n, p in enumerate(partitions)], **more)["ok"]

    def close(self):
        self.lines.close()
        self.socket.close()


@contextmanager
def prefetcher(folder, capacity_bytes=10 * SIZE, patience_s=PATIENCE_S, address="127.0.0.1"):
    log = EventLog(folder)

    def opened(slots):
        return Stager(folder / "bb", capacity_bytes, slots, oversize="direct", events=log)

    prefetcher = Prefetcher(opened, 1, patience_s, log)
    with served(prefetcher, address, folder / "contact.json", folder):
        yield folder / "contact.json"
    log.close()


ADDRESSES = Path("/proc/net/if_inet6")


@pytest.mark.skipif(not ADDRESSES.exists() or " lo\n" not in ADDRESSES.read_text(), reason="no IPv6 here")
@pytest.mark.parametrize("address", ["::1", "[::1]:0"])
def test_processes_find_it_at_an_address_of_ipv6(tmp_path, address):
    with prefetcher(tmp_path, address=address) as contact:
        assert read_contact(contact)[0].tcp.startswith("[::1]:")


@pytest.fixture
def large(tmp_path):
    path = tmp_path / "large"
    path.write_bytes(b"".join(bytes([n]) * SIZE for n in range(6)))
    return str(path)


def split(path, number):
    return [path, number * SIZE, SIZE]


def test_a_task_reads_its_block_on_the_burst_buffer_and_the_next_come_meanwhile(tmp_path, large):
    with prefetcher(tmp_path) as contact:
        driver, task = Peer(contact), Peer(contact)
        driver.plan(*([split(large, n)] for n in range(6)))
        reply = task.tell("ask", partition=0, url=large, at=10)
        assert (reply["start"], reply["end"]) == (0, SIZE)
        assert Path(reply["path"]).read_bytes() == b"\0" * SIZE
        beyond = until(lambda: task.tell("ask", partition=0, url=large, at=SIZE).get("path"), "the wave ahead")
        assert Path(beyond).read_bytes() == b"\1" * SIZE
        assert task.tell("ask", partition=0, url=large, at=6 * SIZE) == {"ok": True}
        driver.tell("done", partition=0)
        assert "path" in task.tell("ask", partition=2, url=large, at=2 * SIZE)
        driver.close()
        task.close()


def test_a_second_reading_finds_what_lies_there_though_the_burst_buffer_is_smaller_than_the_file(tmp_path, large):
    with prefetcher(tmp_path, capacity_bytes=4 * SIZE) as contact:
        driver = Peer(contact)
        for stage in (1, 2):
            driver.plan(*([split(large, n)] for n in range(6)), stage=stage)
            for number in range(6):
                assert "path" in driver.tell("ask", partition=number, stage=stage, url=large, at=number * SIZE)
                driver.tell("done", partition=number, stage=stage)
            driver.tell("over", stage=stage)
        driver.close()
    events = map(json.loads, (tmp_path / "events.jsonl").read_text().splitlines())
    moved = sum(event["bytes"] for event in events if event["event"] == "transfer")
    assert moved == (6 + 4) * SIZE, "the last two of four have stayed"


def test_what_cannot_be_staged_is_read_from_the_source(tmp_path, large):
    with prefetcher(tmp_path, capacity_bytes=SIZE // 2) as contact:
        peer = Peer(contact)
        peer.plan([split(large, 0)], [[f"{large}-gone", 0, SIZE]])
        assert peer.tell("ask", partition=0, url=large, at=0) == {"ok": True, "end": SIZE}
        assert peer.tell("ask", partition=1, url=f"{large}-gone", at=0) == {"ok": True, "end": SIZE}
        peer.close()


def test_when_the_driver_is_gone_its_blocks_are_nobodys(tmp_path, large):
    with prefetcher(tmp_path) as contact:
        driver, task = Peer(contact), Peer(contact)
        driver.plan([split(large, 0)])
        assert "path" in task.tell("ask", partition=0, url=large, at=0)
        driver.close()
        until(lambda: "path" not in task.tell("ask", partition=0, url=large, at=0))
        task.close()


def test_who_does_not_know_the_key_is_refused(tmp_path, large):
    with prefetcher(tmp_path) as contact, pytest.raises(NodeError, match="key"):
        Peer(contact, key="00" * 32)
    assert not (tmp_path / "contact.json").exists()
