"""Ranks that never open the stream, and streams that nobody folds: a run ends, and says what became of them."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import bbflow_adios2
import numpy as np
import pytest
import xarray as xr
import yaml

from bbflow import start_nodes
from bbflow.configuring.settings import Config
from bbflow.landing.absent import Absent, absent_ranks, give_up_absent
from bbflow.landing.client import status_of
from bbflow.landing.replies import StatusReply, StreamStatus
from bbflow.net.contact import NodeAddress
from bbflow.run.course import INCOMPLETE, Course
from bbflow.run.strays import Stray, Strays, strays_of
from bbflow.run.supervise import INTERRUPTED, Supervisor
from testsupport.waiting import until

BIN = Path(sys.executable).parent
MODEL = """
import os, sys
import adios2
import numpy as np

def write(name, values, **parameters):
    io = adios2.Adios().declare_io(name + str(values))
    io.set_engine("Plugin")
    told = {"PluginName": "bbflow", "PluginLibrary": "bbflow_adios2", "Stream": name}
    io.set_parameters(told | parameters)
    io.define_attribute("time/units", "days since 2001-01-01")
    with adios2.Stream(io, name, "w") as stream:
        for value in values:
            stream.begin_step()
            stream.write("time", np.float64(value))
            stream.write("x", np.full(3, float(value)), [3], [0], [3])
            stream.end_step()
"""
"""Writes streams of a time and a field of three points, which both are the given values."""


def status(**changes):
    """Return a stream's, as one rank writes it."""
    usual = {"status": "closed", "writers": 1, "local_writers": 1, "ranks": [(0, "closed")], "moved": []}
    usual |= {"written": 3, "landed": 3, "landed_bytes": 9, "held": 3, "unclaimed": 3, "discarded": 0, "readers": 0}
    return StreamStatus(**usual | {"waiting": 0, "waited_s": 0.0, "consumers": {}} | changes)


def node(**streams):
    return StatusReply(name="bb0", host="here", capacity=1, free=1, streams=streams)


def test_ranks_count_as_absent_until_they_have_opened_the_stream_on_any_node():
    assert absent_ranks("s", []) is None
    assert absent_ranks("s", [status(status="expected", writers=0, ranks=[])]) is None
    two = status(writers=4, ranks=[(0, "closed"), (2, "shm")])
    assert absent_ranks("s", [two]) == Absent("s", 4, (0, 2), is_over=False)
    assert absent_ranks("s", [two, status(writers=4, ranks=[(1, "closed"), (3, "tcp")])]) is None
    over = absent_ranks("s", [status(writers=4, ranks=[(0, "closed"), (2, "closed")]), status(writers=0, ranks=[])])
    assert over.is_over
    said = str(over)
    assert "2 of 4 ranks never opened it" in said
    assert "2 opened it (0, 2)" in said
    assert "Writers=2 and a Rank from 0 to 1" in said


def test_ranks_that_had_written_a_whole_step_have_opened_the_stream_on_a_node_that_has_lost_it():
    left = status(writers=3, ranks=[(0, "closed"), (1, "closed")], consumers={"fold": 4})
    said = str(absent_ranks("s", [left, status(status="expected", writers=0, ranks=[])]))
    assert "no BB node knows 1 of its 3 ranks any more" in said
    assert "never opened" not in said
    assert "Writers" not in said


def test_while_a_node_does_not_answer_its_ranks_do_not_count_as_absent():
    """Its agent was killed just when the program had ended, and came back: the stream was aborted meanwhile."""
    ended = []

    def tell(node, asked):
        ended.append((node.name, asked.stream))

    nodes = [NodeAddress(name, "here", "", "", "") for name in ("bb0", "bb1")]
    one, other = status(writers=2), status(writers=2, ranks=[(1, "closed")])
    give_up_absent(nodes, [node(s=other)], "s", tell)
    give_up_absent(nodes, [node(s=one), node(s=other)], "s", tell)
    assert ended == []
    give_up_absent(nodes, [node(s=one), node()], "s", tell)
    give_up_absent(nodes[:1], [node(s=one)], "s", tell)
    assert ended == [("bb0", "s"), ("bb1", "s"), ("bb0", "s")]


def test_a_stream_that_was_done_with_between_two_looks_has_been_opened():
    """The run of a short program ended with the word that it had never opened its stream."""
    with start_nodes(1, "1MiB") as buffer:
        looks = iter([node(s=status(status="expected", writers=0, ranks=[])), node()])
        ways = {"show": lambda _: None, "look": lambda _: None, "ask": lambda _: next(looks)}
        supervisor = Supervisor(buffer.contact, "s", "", None, {}, on_failure="continue", is_complete=bool, **ways)
        assert supervisor._look()
        assert (supervisor._opened, supervisor._forgotten) == (False, False)
        assert supervisor._look()
        assert (supervisor._opened, supervisor._forgotten) == (True, True)


def test_streams_that_someone_folds_drains_or_reads_are_no_strays():
    taken = {
        "folded": status(consumers={"fold": 0}),
        "read": status(unclaimed=0, held=2),
        "empty": status(written=0, landed=0, held=0, unclaimed=0),
        "discarded": status(discarded=3, landed=0, held=0, unclaimed=0),
    }
    assert strays_of([node(**taken)]) == []
    assert strays_of([node(**taken, old=status())], before=["old"]) == []
    torn = status(status="open", written=5, landed=4, unclaimed=2, waiting=1)
    assert strays_of([node(**taken, b=torn), node(a=status(), b=status(status="expected", unclaimed=0))]) == [
        Stray("a", 3),
        Stray("b", 2, torn=1, is_open=True, waits=True),
    ]
    assert strays_of([node(b=status(status="open", waiting=1, readers=1))]) == [Stray("b", 3, is_open=True)]


def write_config(folder, name="analysis.yml", **changes):
    content = {
        "stream": "a",
        "output": str(folder / "out"),
        "operators": {"x": ["mean"]},
        "nodes": {"capacity": "4MiB"},
    }
    (folder / name).write_text(yaml.safe_dump(content | changes))


def run(folder, model, *options, launcher=()):
    """Run a model with its analysis; give exit code and what was said."""
    (folder / "model.py").write_text(MODEL + model)
    command = [sys.executable, "-m", "bbflow", "run", "analysis.yml", "--no-report", *options, "--"]
    command += [*launcher, sys.executable, "model.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    return done.returncode, done.stdout + done.stderr


def test_a_run_names_and_rescues_every_stream_that_nobody_folds(tmp_path):
    """Beside its own, after its own, one of the same name as its own, one that lacks a rank, and one without steps."""
    write_config(tmp_path)
    model = """
import time
from pathlib import Path
write("b/1", [1, 2])
write("a", [10, 20])
from bbflow.landing.client import status_of
from bbflow.net.contact import read_contact
(node,) = read_contact(Path(os.environ["BBFLOW_CONTACT"]))
while "a" in status_of(node).streams:
    time.sleep(0.05)
write("a", [3])
write("late", [4, 5])
write("short", [6], Rank="0", Writers="2")
write("empty", [])
"""
    code, said = run(tmp_path, model)
    assert code == INCOMPLETE, said
    results = xr.open_zarr(tmp_path / "out" / "results.zarr")
    assert results.x_run_mean.values[-1].tolist() == [15.0] * 3
    assert results.attrs["bbflow_status"] == "complete"
    for name, place, values in (("a", "a", [3]), ("b/1", "b_x2F_1", [1, 2]), ("late", "late", [4, 5])):
        store = tmp_path / "out" / "unfolded" / place / "raw.zarr"
        assert f"NOTHING FOLDED, DRAINED OR READ STREAM {name!r}, {len(values)} steps: they are in {store}" in said
        np.testing.assert_array_equal(xr.open_zarr(store).x.values, np.repeat([values], 3, 0).T)
    assert "STREAM 'short', 0 steps and 1 that are not whole: there was nothing to rescue" in said
    assert "empty" not in said
    code, said = run(tmp_path, 'write("a", [7])', "--overwrite")
    assert code == 0, said
    assert not list((tmp_path / "out" / "unfolded").glob("*/raw.zarr"))


def test_a_run_whose_stream_has_another_name_rescues_what_there_is(tmp_path):
    write_config(tmp_path)
    code, said = run(tmp_path, 'write("A", [1])')
    assert code not in (0, INCOMPLETE), said
    assert "never opened stream 'a'" in said
    assert xr.open_zarr(tmp_path / "out" / "unfolded" / "A" / "raw.zarr").x.values.tolist() == [[1.0] * 3]


def test_why_a_run_s_only_open_was_refused_is_said_where_the_program_does_not_look(tmp_path):
    write_config(tmp_path)
    ignoring = "from contextlib import suppress\nwith suppress(Exception):\n    "
    code, said = run(tmp_path, ignoring + 'write("a", [1], QueueFullPolicy="Sometimes")')
    assert code not in (0, INCOMPLETE), said
    assert "never opened stream 'a': its Open was refused (parameter QueueFullPolicy=Sometimes must be" in said


def test_a_run_that_is_interrupted_before_its_program_has_opened_anything_ends(tmp_path):
    """Its analysis would wait for the stream forever."""
    write_config(tmp_path)
    command = [sys.executable, "-m", "bbflow", "run", "analysis.yml", "--no-report", "--"]
    command += ["sleep", "300"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(command, cwd=tmp_path, **pipes) as process:
        while "a (expected)" not in process.stdout.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=100)[0]
    assert process.returncode == INTERRUPTED, said
    assert "was killed by SIGINT and never opened stream 'a'" in said


def test_on_nodes_that_stay_such_streams_stay_and_are_named(tmp_path):
    write_config(tmp_path)
    with start_nodes(1, "4MiB") as nodes:
        subprocess.run(
            [sys.executable, "-c", MODEL + 'write("before", [1])'],
            env=os.environ | bbflow_adios2.environment(nodes.contact),
            check=True,
            timeout=300,
        )
        code, said = run(tmp_path, 'write("a", [1]); write("b", [2])', "--contact", str(nodes.contact))
        assert code == INCOMPLETE, said
        assert "STREAM 'b', 1 steps: it stays on the BB nodes" in said
        assert f"bbflow rescue b --contact {nodes.contact}" in said
        assert "before" not in said
        (node,) = nodes.nodes
        assert set(status_of(node).streams) == {"before", "b"}
        folded = [sys.executable, "-m", "bbflow", "fold", "b.yml", "--contact", str(nodes.contact)]
        write_config(tmp_path, "b.yml", stream="b", output=str(tmp_path / "out_b"))
        done = subprocess.run(folded, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr  # what was there before is no loss of its
        assert "STREAM 'before', 1 steps: it stays on the BB nodes" in done.stderr


@pytest.mark.parametrize("count", [1, 2], ids=["one node", "a node that no rank comes to"])
def test_a_run_ends_soon_after_a_program_of_which_not_all_ranks_open_the_stream(tmp_path, count):
    write_config(tmp_path, nodes={"capacity": "4MiB", "count": count})
    model = 'int(os.environ["PMI_RANK"]) or write("a", [1], OpenTimeoutSecs="86400")'
    code, said = run(tmp_path, model, launcher=[BIN / "mpiexec", "-n", "2"])
    assert code == INCOMPLETE, said
    assert "stream 'a' is aborted: 1 of 2 ranks never opened it" in said


def test_what_waits_for_room_and_is_not_read_is_rescued_while_the_run_lasts(tmp_path):
    """Else neither the program nor the run would ever end."""
    values = list(range(100))
    (tmp_path / "model.py").write_text(MODEL + f'write("b", {values})')
    with start_nodes(1, "64KiB") as nodes:
        watched = Strays(Path("analysis.yml"), Config("a", {}, tmp_path), nodes.contact, nodes, patience_s=0.5)
        environment = os.environ | bbflow_adios2.environment(nodes.contact)
        with subprocess.Popen([sys.executable, tmp_path / "model.py"], env=environment) as program:

            def has_ended():
                watched.look([status_of(node) for node in nodes.nodes])
                return program.poll() is not None

            until(has_ended)
        (line,) = watched.end(Course())
    assert "STREAM 'b', 100 steps: they are in" in line
    assert xr.open_zarr(tmp_path / "unfolded" / "b" / "raw.zarr").time.size == 100


def test_a_run_of_a_program_that_ignores_what_it_is_refused_is_incomplete_and_says_why(tmp_path):
    ignores = """
write("x", [0, 1])
try:
    write("x", [2, 3])
except Exception:
    pass
"""
    config = {"stream": "x", "operators": {"x": ["mean"]}, "windows": ["run"], "output": str(tmp_path / "out")}
    (tmp_path / "a.yml").write_text(yaml.safe_dump(config | {"nodes": {"capacity": "1MiB"}}))
    command = [BIN / "bbflow", "run", tmp_path / "a.yml", "--no-report", "--", sys.executable, "-c", MODEL + ignores]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, cwd=tmp_path)
    said = done.stdout + done.stderr
    if "NOTHING FOLDED" in said:  # the analysis had ended, and the second file is a stream of its own
        assert done.returncode == INCOMPLETE, said
        return
    assert done.returncode == INCOMPLETE, said
    assert "THE STATISTICS ARE INCOMPLETE: the program was refused a part of it (stream 'x' was closed" in said
    assert "set KeepOpen=yes in its XML, or choose it by 'select'" in said
    with xr.open_zarr(tmp_path / "out/results.zarr") as results:
        assert results.bbflow_status == "incomplete"


def test_a_run_says_in_its_last_lines_that_the_program_left_its_stream_open(tmp_path):
    leaves = MODEL.replace(
        '    with adios2.Stream(io, name, "w") as stream:\n', '    stream = adios2.Stream(io, name, "w")\n    if 1:\n'
    )
    config = {"stream": "x", "operators": {"x": ["mean"]}, "windows": ["run"], "output": str(tmp_path / "out")}
    (tmp_path / "a.yml").write_text(yaml.safe_dump(config | {"nodes": {"capacity": "1MiB"}}))
    code = leaves + "write('x', [0, 1]); import os; os._exit(0)"
    command = [BIN / "bbflow", "run", tmp_path / "a.yml", "--no-report", "--", sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, cwd=tmp_path)
    assert done.returncode == INCOMPLETE, done.stderr
    last = done.stdout.splitlines()[-1]
    assert last.startswith("bbflow: THE STATISTICS ARE INCOMPLETE: the simulation ended without closing the stream"), (
        last
    )
