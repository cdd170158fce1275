import contextlib
import io

import pytest
from rich.console import Console

from bbflow.landing.replies import StatusReply, StreamStatus
from bbflow.run.progress import ProgressLine, plain_line, status_table, summarise
from testsupport.clocks import Clock


def stream(landed=10, local_writers=2, fold=None, drain=None, **changes):
    cursors = {"fold": fold, "drain": drain}
    usual = {
        "status": "open",
        "writers": 4,
        "local_writers": local_writers,
        "written": landed + 1,
        "landed": landed,
        "landed_bytes": landed * 1024,
        "held": 2,
        "unclaimed": 0,
        "discarded": 0,
        "readers": 0,
        "waiting": 0,
        "waited_s": 0.0,
        "ranks": [(rank, "shm") for rank in range(local_writers)],
        "moved": [],
        "consumers": {name: step for name, step in cursors.items() if step is not None},
    }
    return StreamStatus(**usual | changes)


def node(name="bb0", free=3 << 20, **streams):
    return StatusReply(name=name, host="n1", capacity=4 << 20, free=free, streams=streams)


def console(terminal=False):
    return Console(file=io.StringIO(), force_terminal=terminal, width=120, color_system=None, legacy_windows=False)


def test_a_step_has_landed_when_every_node_with_writers_has_it():
    statuses = [node(run=stream(10)), node(run=stream(8)), node(run=stream(0, local_writers=0))]
    (progress,) = summarise(statuses, None, 0.0).streams
    assert (progress.landed, progress.written, progress.landed_bytes) == (8, 11, 18 * 1024)


def test_room_is_summed_and_waiting_is_that_of_the_slowest_node():
    statuses = [node(run=stream(waited_s=1.5)), node(free=1 << 20, run=stream(waited_s=0.5))]
    summary = summarise(statuses, None, 0.0)
    assert (summary.capacity_bytes, summary.free_bytes) == (8 << 20, 4 << 20)
    assert summary.streams[0].waited_s == 1.5


def test_cursors_become_counts_of_steps():
    statuses = [node(run=stream(10, fold=9, drain=4)), node(run=stream(10, fold=6, drain=-1))]
    (progress,) = summarise(statuses, None, 0.0).streams
    assert (progress.folded, progress.drained) == (7, 0)


def test_at_the_end_discarded_steps_count_neither_as_landed_nor_as_folded():
    (progress,) = summarise([node(run=stream(7, fold=9, discarded=3))], None, 0.0).streams
    assert (progress.landed, progress.folded, progress.discarded) == (7, 7, 3)


def test_without_a_drain_nothing_is_said_of_it():
    summary = summarise([node(run=stream(fold=1))], None, 0.0)
    assert summary.streams[0].drained is None
    assert "drained" not in plain_line(summary)


@pytest.mark.parametrize(("parts", "status"), [(("closed", "open"), "open"), (("closed", "aborted"), "aborted")])
def test_a_stream_is_closed_when_it_is_on_every_node(parts, status):
    statuses = [node(run=stream(status=part)) for part in parts]
    assert summarise(statuses, None, 0.0).streams[0].status == status


def test_the_rate_comes_from_two_looks_and_follows_slowly():
    first = summarise([node(run=stream(10))], None, 0.0)
    second = summarise([node(run=stream(30))], first, 2.0)
    third = summarise([node(run=stream(30))], second, 1.0)
    rates = [summary.streams[0].landing_bytes_per_s for summary in (first, second, third)]
    assert rates[:2] == [None, 10240.0]
    assert 0 < rates[2] < 10240


def test_the_rate_starts_anew_when_a_stream_does():
    first = summarise([node(run=stream(10))], None, 0.0)
    again = summarise([node(run=stream(1))], first, 1.0)
    assert again.streams[0].landing_bytes_per_s is None


def test_away_from_a_terminal_a_plain_line_comes_every_five_seconds_at_most():
    out, clock = console(), Clock(100.0)
    with ProgressLine(out, clock) as progress:
        for step in range(12):
            progress.update([node(run=stream(step, fold=step - 1))])
            clock.now_s += 1.0
    lines = out.file.getvalue().splitlines()
    assert [line.split(", ")[1] for line in lines] == ["0 landed", "5 landed", "10 landed", "11 landed"]
    assert "\x1b" not in out.file.getvalue()


def test_a_plain_line_is_not_repeated():
    out, clock = console(), Clock(100.0)
    with ProgressLine(out, clock) as progress:
        for _ in range(3):
            progress.update([node(run=stream(4, landed_bytes=0))], "run")
            clock.now_s += 60.0
    assert out.file.getvalue().count("4 landed") <= 2  # once without, once with a rate


def test_the_last_line_is_of_all_steps_also_if_the_nodes_forgot_them_before_they_were_asked():
    out = console()
    with ProgressLine(out, Clock(100.0)) as progress:
        progress.settle("run", 3)
        progress.update([node(run=stream(10, fold=7, drain=5, discarded=1))], "run")
        progress.settle("run", 12)
    first, last = out.file.getvalue().splitlines()
    assert first.startswith("run (open): 11 steps written, 10 landed, 7 folded, 5 drained, 1 discarded")
    assert last.startswith("run (closed): 12 steps written, 11 landed, 11 folded, 11 drained, 1 discarded")


def test_on_a_terminal_the_counts_stand_in_a_table():
    out = console(terminal=True)
    with ProgressLine(out, Clock(100.0)) as progress:
        progress.update([node(run=stream(1234, fold=1200, drain=1000), other=stream(5))], "run")
    text = out.file.getvalue()
    assert "1,234" in text
    assert "1,201" in text
    assert "3 MiB of 4 MiB free" in text
    assert "other" not in text


def test_the_terminal_is_restored_when_an_error_ends_the_progress():
    out = console(terminal=True)
    with contextlib.suppress(KeyboardInterrupt), ProgressLine(out, Clock(100.0)) as progress:
        progress.update([node(run=stream())])
        raise KeyboardInterrupt
    assert out.file.getvalue().rstrip().endswith("\x1b[?25h")  # the cursor is shown again


def test_nodes_without_streams_are_no_error():
    out = console()
    with ProgressLine(out, Clock(100.0)) as progress:
        progress.update([])
        progress.update([node()])
    assert out.file.getvalue() == ""


def test_the_status_table_has_the_streams_of_each_node_below_it():
    out = console()
    out.print(status_table([node("bb0", run=stream(), old=stream(status="closed")), node("bb1")]))
    lines = [" ".join(line.split()) for line in out.file.getvalue().splitlines() if line.strip()]
    assert lines[2:] == [
        "bb0 on n1",
        "3 MiB of 4 MiB free",
        "old closed 10 10 KiB - - 2 0 0.0 s",
        "ranks 0-1 shm",
        "run open 10 10 KiB - - 2 0 0.0 s",
        "ranks 0-1 shm",
        "bb1 on n1",
        "3 MiB of 4 MiB free",
    ]


def test_a_streams_name_is_never_taken_for_markup():
    out = console()
    odd = {"[red]x[/]": stream()}
    out.print(status_table([node(**odd)]))
    out.print(plain_line(summarise([node(**odd)], None, 0.0)), markup=False)
    assert out.file.getvalue().count("[red]x[/]") == 2


def test_the_status_table_says_which_ranks_land_where_and_how():
    ranks = [[0, "shm"], [1, "shm"], [2, "tcp"], [4, "tcp"], [5, "away"]]
    shown = console()
    shown.print(status_table([node(run=stream(ranks=ranks, moved=[[4, "bb1"]]))]))
    assert "ranks 0-1 shm, 2 tcp, 4 tcp, 5 away; moved: 4 from bb1" in " ".join(shown.file.getvalue().split())
