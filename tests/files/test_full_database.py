"""A master whose database can't grow: nobody is answered before all is stored."""

import os
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
from test_master import LISTENER, ONE, TWO, Bench, two_clients

from bbflow.errors import CapacityError, NodeError
from bbflow.files.master.core import CutOff
from bbflow.files.master.database import Database
from bbflow.files.requests import MkdirRequest
from bbflow.net.contact import has_masters
from testsupport.waiting import until

LONG = "x" * 200


class SmallBench(Bench):
    """One master, with as much room for its database as the test gives it."""

    def fill(self):
        self.database._connection.execute("PRAGMA max_page_count=1")

    def free(self):
        self.database._connection.execute("PRAGMA max_page_count=1000000")

    def make(self, first, last):
        """Make directories, without sending anything; their entries are more than fits into what is there."""
        for number in range(first, last):
            self.hear(ONE, "mkdir", parent=self.root, name=f"{number}{LONG}", mode=0o755)


@pytest.fixture
def bench(tmp_path):
    return SmallBench(tmp_path)


def test_what_could_not_be_stored_is_stored_and_answered_when_there_is_room(bench, tmp_path):
    bench.enter(ONE)
    bench.fill()
    bench.make(0, 100)
    with pytest.raises(CapacityError, match="full"):
        bench.out()
    bench.make(100, 200)
    with pytest.raises(CapacityError, match="full"):
        bench.out()
    bench.free()
    assert [peer for peer, message in bench.out() if message["ok"]] == [ONE] * 200
    bench.database.close()
    again = Bench(tmp_path)
    again.enter(TWO)
    assert len(again.say(TWO, "list", ino=again.root, after="", limit=1000)["entries"]) == 200


def test_who_could_not_be_told_to_forget_has_a_lease_from_then_on(bench):
    two_clients(bench)
    bench.fill()
    bench.make(0, 100)
    bench.hear(ONE, "unlink", parent=bench.root, name="f")
    with pytest.raises(CapacityError):
        bench.out()
    bench.now_s += 60.0
    bench.master.expire()
    bench.free()
    bench.wait(0.25)
    assert bench.said[LISTENER]["op"] == "forget"
    bench.wait(9.0)
    assert bench.said[TWO] != CutOff()
    bench.wait(1.5)
    assert bench.said[TWO] == CutOff()


def limit(process, most):
    """Keep a process from writing longer files."""
    process.rlimit(psutil.RLIMIT_FSIZE, (most, psutil.RLIM_INFINITY))


def test_clients_of_a_master_whose_file_system_is_full_wait_for_room(servers):
    client = servers.start(storage=False)
    process = psutil.Process(servers.processes["master"][0].pid)
    limit(process, 4096)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(client.mkdir, "/d")
        with pytest.raises(TimeoutError):
            asked.result(1.0)
        limit(process, psutil.RLIM_INFINITY)
        asked.result(60)
    assert "until then it waits" in (servers.directory / "master.log").read_text()
    servers.restart("master")
    with servers.client() as other:
        assert other.stat("/d").kind == "d"


def test_a_master_whose_file_system_is_full_ends_in_good_order_when_it_is_told_to(servers):
    (session,) = servers.start(storage=False).masters()
    process, _ = servers.processes["master"]
    limit(psutil.Process(process.pid), 4096)
    session.tell(MkdirRequest(parent=session.root, name="d", mode=0o755))
    log = servers.directory / "master.log"
    until(lambda: "until then it waits" in log.read_text(), "the full file system")
    process.terminate()
    assert process.wait(60) == os.EX_TEMPFAIL
    assert not has_masters(servers.contact)
    assert "Traceback" not in log.read_text()


def test_a_database_that_cannot_be_made_is_named(tmp_path):
    with pytest.raises(NodeError, match=r"none/files\.db can't be made \(unable to open database file\)"):
        Database(tmp_path / "none" / "files.db")
