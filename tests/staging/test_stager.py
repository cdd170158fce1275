"""The stager with real threads, real files and real servers; killed in the middle, and started again."""

import json
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import CancelledError, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from pathlib import Path

import pytest

from bbflow.errors import BbflowError, CapacityError, ConfigError, SourceError
from bbflow.events import EventLog, read_events
from bbflow.phases import BoardSource, io_phase
from bbflow.report.staging import draw_staging, read_staging
from bbflow.staging import File, Retry, Stager, parse_policy
from testsupport.clocks import Clock
from testsupport.moments import bytes_at_once, files_below
from testsupport.range_server import RangeServer
from testsupport.waiting import until

MiB = 1 << 20
QUICK = Retry(attempts=2, first_s=0.01)


@pytest.fixture
def stager(tmp_path):
    opened = []

    def open_stager(capacity_bytes=100 * MiB, slots=2, **rest):
        opened.append(Stager(tmp_path / "bb", capacity_bytes, slots, **({"retry": QUICK} | rest)))
        return opened[-1]

    yield open_stager
    for one in opened:
        one.close()


@pytest.fixture
def held(stager, tmp_path):
    """Yield a stager whose transfers are held for a phase that doesn't end."""
    with io_phase("ocean-model", tmp_path / "phases"):
        one = stager(policy=parse_policy("full-delay"), phases=BoardSource(tmp_path / "phases"))
        assert one.gate.decision.hold, "it looks before anything can pass"
        yield one


def staged_bytes(tmp_path):
    return bytes_at_once(path for part in ("partial", "files") for path in files_below(tmp_path / "bb" / part))


def test_tasks_find_their_files_and_the_room_is_never_exceeded(make, as_file, stager, tmp_path):
    sources = [make(f"f{n}.dat", MiB) for n in range(12)]
    one = stager(capacity_bytes=5 * MiB, slots=2, fetchers=3)
    ready = [one.submit(f"t{n}", [as_file(source), as_file(sources[0])]) for n, source in enumerate(sources)]
    seen_bytes = []

    def compute(n):
        places = ready[n].result(300)
        assert places[str(sources[n])].read_bytes() == sources[n].read_bytes()
        assert places[str(sources[0])].read_bytes() == sources[0].read_bytes()
        seen_bytes.append(staged_bytes(tmp_path))
        one.final(f"t{n}")

    with ThreadPoolExecutor(2) as slots:
        list(slots.map(compute, range(12)))
    assert MiB < max(seen_bytes) <= 5 * MiB
    assert one.state().staged_bytes == 12 * MiB


@pytest.mark.parametrize(
    ("fetchers", "policy"), [(0, None), (10**9, None), (8, parse_policy("scale-up:fetchers=99999"))]
)
def test_no_fetcher_and_more_than_threads_allow_are_refused(tmp_path, fetchers, policy):
    with pytest.raises(ConfigError, match="needs from one to 1024 fetchers, not"):
        Stager(tmp_path / "bb", 1 << 20, 1, fetchers=fetchers, policy=policy)


def test_sizes_that_are_not_given_are_asked_for_and_the_order_of_the_program_is_kept(make, stager):
    sources = [make(f"f{n}.dat", 1000) for n in range(6)]
    one = stager(capacity_bytes=2000, slots=1)
    ready = [one.submit(f"t{n}", [File(str(source))]) for n, source in enumerate(sources)]
    for n in range(6):
        ready[n].result(300)
        assert not any(later.done() for later in ready[n + 2 :])
        one.final(f"t{n}")


def test_submit_and_final_never_wait_for_a_transfer(make, as_file, held):
    one = held
    source = make("f.dat", MiB)
    ready = [one.submit(f"t{n}", [as_file(source)]) for n in range(50)]
    assert not any(future.done() for future in ready)
    for n in range(50):
        one.final(f"t{n}")
    assert all(future.cancelled() for future in ready)


def test_a_task_that_is_final_before_it_was_ready_is_cancelled(make, as_file, stager):
    one = stager(slots=1, lookahead=0)
    one.submit("first", [as_file(make("a.dat", 10))]).result(300)
    second = one.submit("second", [as_file(make("b.dat", 10))])
    one.final("second")
    with pytest.raises(CancelledError):
        second.result(300)


def test_a_source_that_is_missing_fails_only_its_task(make, as_file, stager):
    one = stager()
    bad = one.submit("bad", [File("/nowhere/a.dat"), as_file(make("b.dat", 10))])
    worse = one.submit("worse", [File("/nowhere/c.dat", 10)])
    good = one.submit("good", [as_file(make("d.dat", 10))])
    for future in (bad, worse):
        with pytest.raises(SourceError, match=r"/nowhere/.\.dat isn't there"):
            future.result(300)
    assert good.result(300)


def test_a_set_that_cannot_fit_fails_or_is_read_directly(make, as_file, tmp_path):
    source = make("a.dat", 100)
    with Stager(tmp_path / "bb", 50, 1) as one, pytest.raises(CapacityError, match="'t' needs 100 B"):
        one.submit("t", [as_file(source)]).result(300)
    with Stager(tmp_path / "bb", 50, 1, oversize="direct") as one:
        assert one.submit("t", [as_file(source)]).result(300) == {str(source): source}


def test_an_intermediate_file_goes_from_task_to_task_on_the_burst_buffer_and_out_when_asked(
    make, as_file, stager, tmp_path
):
    one = stager()
    middle, target = File("file:///pfs/middle.dat", 100), tmp_path / "pfs" / "middle.dat"
    made = one.submit("maker", [as_file(make("a.dat", 10))], [middle]).result(300)[middle.url]
    user = one.submit("user", [File(middle.url)])
    assert not user.done()
    made.write_bytes(b"x" * 70)
    one.final("maker")
    assert user.result(300) == {middle.url: made}
    assert one.stage_out(made, str(target)).result(300) == 70
    assert target.read_bytes() == made.read_bytes()
    one.final("user")
    assert made.exists()
    one.release(middle.url)
    assert one.submit("large", [File(str(make("b.dat", 100 * MiB - 5)))]).result(300)
    assert not made.exists()


def test_transfers_wait_for_the_end_of_an_announced_phase(make, as_file, stager, tmp_path):
    one = stager(policy=parse_policy("full-delay"), phases=BoardSource(tmp_path / "phases"))
    with io_phase("ocean-model", tmp_path / "phases"):
        until(lambda: one.gate.decision.hold)
        ready = one.submit("t", [as_file(make("a.dat", MiB))])
        until(lambda: one.gate.waiting == 1)
        assert not ready.done()
        assert one.gate.passed_bytes == 0
    assert ready.result(300)


def test_a_copy_that_is_there_is_used_again_in_a_phase_too(make, as_file, stager, tmp_path):
    one = stager(policy=parse_policy("full-delay"), phases=BoardSource(tmp_path / "phases"))
    file = as_file(make("a.dat", MiB))
    one.submit("first", [file]).result(300)
    one.final("first")
    with io_phase("ocean-model", tmp_path / "phases"):
        until(lambda: one.gate.decision.hold)
        assert one.submit("again", [file]).result(60)
        assert one.gate.passed_bytes == MiB


def test_a_phase_that_never_ends_delays_no_longer_than_allowed(make, as_file, stager, tmp_path):
    policy, phases, clock = parse_policy("full-delay:max_delay_s=5"), BoardSource(tmp_path / "phases"), Clock()
    one = stager(policy=policy, phases=phases, clock=clock)
    with io_phase("ocean-model", tmp_path / "phases"):
        until(lambda: one.gate.decision.hold)
        ready = one.submit("t", [as_file(make("a.dat", MiB))])
        until(lambda: clock.tick() and ready.done())
        assert ready.result()
    assert clock.now_s >= 1005.0


def test_staging_out_waits_for_a_phase_too_and_no_longer_than_allowed(make, stager, tmp_path):
    policy, phases, clock = parse_policy("full-delay:max_delay_s=5"), BoardSource(tmp_path / "phases"), Clock()
    one = stager(policy=policy, phases=phases, clock=clock)
    with io_phase("ocean-model", tmp_path / "phases"):
        until(lambda: one.gate.decision.hold)
        copied = one.stage_out(make("a.dat", MiB), str(tmp_path / "out.dat"))
        until(lambda: one.gate.waiting == 1)
        assert not copied.done()
        until(lambda: clock.tick() and copied.done())
        assert copied.result() == MiB
    assert clock.now_s >= 1005.0


def test_a_hold_comes_in_the_middle_of_a_transfer_and_ends_well(make, stager, tmp_path):
    source = make("a.dat", 6 * MiB)
    with RangeServer(tmp_path / "source", allowed=4) as server:
        one = stager(policy=parse_policy("full-delay"), phases=BoardSource(tmp_path / "phases"))
        ready = one.submit("t", [File(f"{server.url}/a.dat", 6 * MiB)])
        until(lambda: len(server.gets) > 4)
        with io_phase("ocean-model", tmp_path / "phases"):
            until(lambda: one.gate.decision.hold)
            server.allow()
            until(lambda: one.gate.waiting == 1)
            assert sum(length for _, _, length in server.gets if length > 1) == one.gate.passed_bytes < 6 * MiB
            assert not ready.done()
        (path,) = ready.result(300).values()
    assert path.read_bytes() == source.read_bytes()


def test_a_directory_belongs_to_one_stager(stager, tmp_path):
    stager()
    with pytest.raises(ConfigError, match="name another directory"):
        Stager(tmp_path / "bb", 10, 1)


def test_closing_tells_those_who_wait(make, as_file, held):
    one = held
    ready = one.submit("t", [as_file(make("a.dat", 10))])
    one.close()
    with pytest.raises(BbflowError, match="closed before its files were there"):
        ready.result(300)
    with pytest.raises(ConfigError, match="is closed"):
        one.submit("later", [])


def test_what_an_earlier_life_staged_is_taken_over_unless_its_source_changed(make, as_file, tmp_path):
    same, changed, gone = (make(name, MiB) for name in ("same", "changed", "gone"))
    with Stager(tmp_path / "bb", 10 * MiB, 1) as one:
        one.submit("t", [as_file(path) for path in (same, changed, gone)]).result(300)
    changed.write_bytes(b"y" * MiB)
    os.utime(changed, (1, 1))  # the file system's clock may not have ticked since
    with Stager(tmp_path / "bb", 10 * MiB, 1) as one:
        assert one.state().used_bytes == 3 * MiB
        places = one.submit("t", [as_file(path) for path in (same, changed)]).result(300)
        assert one.state().staged_bytes == MiB
        assert places[str(changed)].read_bytes() == changed.read_bytes()
    with Stager(tmp_path / "bb", MiB, 1) as one:
        assert staged_bytes(tmp_path) == MiB, "what doesn't fit any more goes"


LIFE = """
import json, sys
from pathlib import Path
from bbflow.staging import File, Stager
directory, urls, pace = json.loads(sys.argv[1])
with Stager(Path(directory), 1 << 30, 4, fetchers=2) as one:
    print("begun", flush=True)
    for place in one.submit("t", [File(url) for url in urls]).result(600).values():
        print(place, flush=True)
    print(one.state().staged_bytes, flush=True)
"""


def test_a_stager_that_is_killed_leaves_no_half_file_and_its_next_life_goes_on(make, tmp_path):
    sources = [make(f"f{n}.dat", 3 * MiB) for n in range(4)]
    with RangeServer(tmp_path / "source") as server:
        urls = [f"{server.url}/f{n}.dat" for n in range(4)]
        words = [sys.executable, "-c", LIFE, json.dumps([str(tmp_path / "bb"), urls, 0])]
        for _ in range(3):
            server.allow(len(server.gets) + 10)
            with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as life:
                assert life.stdout.readline() == "begun\n"
                until(lambda: len(server.gets) > server.allowed)
                life.send_signal(signal.SIGKILL)
            whole = list((tmp_path / "bb" / "files").glob("*/*"))
            assert all(path.read_bytes() == (tmp_path / "source" / path.name).read_bytes() for path in whole)
        left_bytes = staged_bytes(tmp_path)
        assert left_bytes > 0
        server.allow()
        lines = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True, timeout=300).stdout.split()
    for source, place in zip(sources, lines[1:5], strict=True):
        assert Path(place).read_bytes() == source.read_bytes()
    assert int(lines[5]) == 12 * MiB - left_bytes, "what was there is not read again"


def test_everything_that_happens_is_drawn(make, as_file, tmp_path):
    events = EventLog(tmp_path)
    with Stager(
        tmp_path / "bb",
        10 * MiB,
        2,
        policy=parse_policy("full-delay"),
        phases=BoardSource(tmp_path / "p"),
        events=events,
    ) as one:
        for wave in range(3):
            with io_phase("ocean-model", tmp_path / "p"):
                until(lambda: one.gate.decision.hold)
                ready = [one.submit(f"t{wave}{n}", [as_file(make(f"{wave}{n}", MiB))]) for n in range(2)]
            wait_for(ready, 300)
            for n in range(2):
                one.final(f"t{wave}{n}")
    events.close()
    kinds = [event["event"] for event in read_events(tmp_path)]
    assert {kind: kinds.count(kind) for kind in set(kinds)} == {"phase": 3, "hold": 3, "transfer": 6, "task": 6}
    drawn = draw_staging(read_staging(tmp_path))
    assert drawn.png.startswith(b"\x89PNG")


def test_any_thread_may_submit(make, as_file, stager):
    one = stager(slots=4)
    file = as_file(make("a.dat", 100))
    places = []

    def work(number):
        for n in range(25):
            places.append(one.submit(f"{number}-{n}", [file]).result(300))
            one.final(f"{number}-{n}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(places) == 100
