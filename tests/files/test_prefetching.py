"""Files that come before they are read: no further than there is room, or waves are, and none in vain."""

from dataclasses import dataclass

import pytest

from bbflow.cli import main
from bbflow.files.giving_way import Parted
from bbflow.phases import io_phase
from bbflow.staging import Decision, Policy, Situation
from testsupport.waiting import until

FILE = bytes(200_000)


def put(servers, *paths):
    for path in paths:
        file = servers.storage / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(FILE)


def warm(client, path="/"):
    entries = client.entries(path)
    below = [name for entry in entries if entry.kind == "d" for name in warm(client, entry.path)]
    return below + [entry.path for entry in entries if entry.kind == "f" and entry.state != "cold"]


def test_what_was_prefetched_stays_until_it_is_read_and_then_the_next_comes(servers):
    names = [f"f{number:02}" for number in range(12)]
    put(servers, *names)
    client = servers.start(capacity="1MiB")
    assert client.prefetch(["/"]) == 12
    first = [f"/{name}" for name in names[:5]]  # as many as have room
    until(lambda: warm(client) == first, "the first files")
    client.read("/f01")
    until(lambda: "/f05" in warm(client), "the next file, in the place of the one that was read")
    assert set(first) - {"/f01"} <= set(warm(client))
    for name in names:
        assert client.read(f"/{name}") == FILE
    assert client.status()[0].prefetching == 0


def test_a_writer_that_waits_has_the_room_of_what_nobody_has_read(servers, capsys):
    put(servers, *(f"f{number}" for number in range(5)))
    client = servers.start(capacity="1MiB")
    assert main(["files", "prefetch", "--contact", str(servers.contact), "/"]) == 0
    assert capsys.readouterr().out == "5 files are coming\n"
    until(lambda: len(warm(client)) == 5, "the files")
    for number in range(4):
        client.write(f"/new{number}", FILE)
    assert client.read("/f0") == FILE


def test_waves_come_whole_and_only_as_far_ahead_as_they_may(servers, tmp_path):
    put(servers, *(f"t{task}/{name}" for task in range(4) for name in "ab"))
    client = servers.start(capacity="4MiB")
    plan = tmp_path / "plan.json"
    tasks = ", ".join(f'{{"task": "t{task}", "inputs": ["/t{task}/a", "/t{task}/b"]}}' for task in range(4))
    plan.write_text(f"[{tasks}]")
    words = ["--slots", "1", "--lookahead", "1", "--plan", str(plan)]
    assert main(["files", "prefetch", "--contact", str(servers.contact), *words]) == 0
    until(lambda: warm(client) == ["/t0/a", "/t0/b", "/t1/a", "/t1/b"], "two tasks' files")
    client.read("/t0/a")
    client.read("/t1/b")
    until(lambda: client.status()[0].prefetching == 4, "the last byte of the four files")
    assert len(warm(client)) == 4  # no task has read all of its own
    client.read("/t0/b")
    until(lambda: warm(client)[4:] == ["/t2/a", "/t2/b"], "the next task's files")
    client.unlink("/t1/a")  # what is gone need not be read
    until(lambda: warm(client)[-1] == "/t3/b", "the last task's files")


def test_what_has_no_room_at_all_is_named_and_the_rest_comes(servers):
    put(servers, "small/a")
    (servers.storage / "large").write_bytes(bytes(2 << 20))
    client = servers.start(capacity="1MiB")
    assert client.prefetch([["/large"], ["/small"]], slots=2) == 1
    until(lambda: warm(client) == ["/small/a"], "the file that has room")
    ((path, reason),) = client.status()[0].unread
    assert path == "large"
    assert "takes 2 MiB at once, and the IOnodes have 1 MiB" in reason


def test_what_nobody_waits_for_gives_way_to_other_applications(servers, tmp_path):
    put(servers, "a", "b")
    with io_phase("ocean-model", tmp_path / "phases"):
        client = servers.start(node=("--policy", "full-delay", "--phases", str(tmp_path / "phases")))
        assert client.prefetch(["/"]) == 2
        assert client.read("/b") == FILE  # someone waits for it
        assert client.status()[0].prefetching == 1
    until(lambda: client.status()[0].prefetching == 0, "the other file")


@dataclass(frozen=True)
class Pace(Policy):
    def choose(self, situation):
        return Decision(bytes_per_s=100.0 if situation.phases else None)


@pytest.mark.parametrize(("phases", "pace"), [((), None), (("a phase",), 25.0)])
def test_a_pace_is_for_all_ionodes_together(phases, pace):
    parted = Parted(policy=Pace(), nodes=lambda: 4)
    assert parted.decide(Situation(now_s=0.0, phases=phases)).bytes_per_s == pace
