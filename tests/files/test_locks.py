"""Locks, and masters that are killed while sessions hold them."""

import errno

import pytest
from test_master import ONE, TWO, Bench

from bbflow.files.master.records import Lock, LocksRecord


class Locking(Bench):
    """One master after another on one database, and what they say of locks of a file."""

    def __init__(self, directory):
        self.directory, self.sessions = directory, {}
        super().__init__(directory)
        for peer in (ONE, TWO):
            self.sessions[peer] = self.enter(peer)["session"]
        made = self.say(ONE, "create", parent=self.root, name="f", mode=0o600, exclusive=True)
        self.say(ONE, "close", handle=made["handle"])
        self.ino = made["attr"]["ino"]

    def restart(self, *peers):
        """Kill the master; these clients come back."""
        self.database.close()
        Bench.__init__(self, self.directory)
        for peer in peers:
            resume = self.sessions[peer]
            assert self.say(peer, "session", host="h", pid=1, uid=0, gid=0, resume=resume, handles=[], room={})["ok"]

    def lock(self, peer, kind, start=0, end=-1, **keys):
        """Lock a range, or unlock it; return the errno of a refusal, or 0."""
        return self.say(peer, "lock", ino=self.ino, owner="1", kind=kind, start=start, end=end, **keys).get("errno", 0)

    def conflict(self, peer):
        told = self.say(peer, "lock", ino=self.ino, owner="1", kind="w", start=0, end=-1, test=True)
        return told["kind"], told.get("start"), told.get("end")


@pytest.fixture
def locking(tmp_path):
    return Locking(tmp_path)


def test_a_lock_is_nobody_elses_after_its_master_was_started_again(locking):
    assert locking.lock(ONE, "w") == 0
    locking.restart(ONE, TWO)
    assert locking.lock(TWO, "r") == errno.EAGAIN
    assert locking.conflict(TWO) == ("w", 0, -1)
    assert locking.lock(ONE, "w") == 0
    assert locking.lock(ONE, "u") == 0
    locking.restart(ONE, TWO)
    assert locking.lock(TWO, "w") == 0


def test_what_is_left_of_a_lock_that_was_unlocked_in_part_is_found_again(locking):
    assert locking.lock(ONE, "r", 0, 100) == 0
    assert locking.lock(TWO, "r", 200, 300) == 0
    assert locking.lock(ONE, "u", 10, 90) == 0
    locking.restart(ONE, TWO)
    assert locking.lock(TWO, "w", 10, 90) == 0
    assert locking.lock(TWO, "w", 90, 91) == errno.EAGAIN
    assert locking.lock(TWO, "w", 9, 10) == errno.EAGAIN
    assert locking.lock(ONE, "w", 200, 201) == errno.EAGAIN


def test_locks_of_a_client_that_does_not_come_back_end_with_its_lease(locking):
    assert locking.lock(ONE, "w") == 0
    locking.restart(TWO)
    assert locking.lock(TWO, "w") == errno.EAGAIN
    locking.wait(11.0)
    assert locking.lock(TWO, "w") == 0
    locking.restart(TWO)
    (record,) = (record for record in locking.database.records() if isinstance(record, LocksRecord))
    lock = Lock(locking.sessions[TWO], "1", "w", 0, (1 << 63) - 1, 0)
    assert record == LocksRecord(locking.ino, locking.sessions[TWO], "1", (lock,))


def test_a_file_that_gets_the_number_of_one_that_is_gone_has_none_of_its_locks(locking):
    assert locking.lock(ONE, "w") == 0
    assert locking.say(ONE, "unlink", parent=locking.root, name="f")["ok"]
    locking.restart(ONE, TWO)
    made = locking.say(TWO, "create", parent=locking.root, name="g", mode=0o600, exclusive=True)
    assert made["attr"]["ino"] == locking.ino
    assert locking.lock(TWO, "w") == 0
