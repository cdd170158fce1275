"""The page of a run: what lay on the burst buffer when, from Pegasus's records and the transfers' own."""

import json
import re
import sqlite3

import pytest
from bbflow_pegasus.cli import main
from bbflow_pegasus.dag.nodes import parse_dag
from bbflow_pegasus.dag.planned import read_planned
from bbflow_pegasus.dag.submitdir import open_submit_dir
from bbflow_pegasus.report.holdings import Held, holdings, levels, peak_bytes, plain
from bbflow_pegasus.report.records import read_records
from hypothesis import given
from hypothesis import strategies as st
from submitdirs import Planned, Planner

SIZES = {"in_0": 300, "in_1": 200, "out_0": 50}
JOBS = {"one": Planned(("in_0",), ("out_0",)), "two": Planned(("in_1", "out_0"))}
BEGAN_S = 1_700_000_000.0


def record(path, runs):
    """Write the tables of Pegasus's database that a report reads; runs are (job, kind, from, to, exit code)."""
    with sqlite3.connect(path / "wf-0.stampede.db") as database:
        for table in (
            "job (job_id integer, exec_job_id text, type_desc text)",
            "job_instance (job_instance_id integer, job_id integer)",
            "invocation (job_instance_id integer, task_submit_seq integer, start_time real, remote_duration real,"
            " exitcode integer)",
            "rc_lfn (lfn_id integer, lfn text)",
            "rc_meta (lfn_id integer, key text, value text)",
        ):
            database.execute(f"create table {table}")
        names = list(dict.fromkeys(run[0] for run in runs))
        for number, (name, kind, from_s, to_s, code) in enumerate(runs):
            if name in names:
                database.execute("insert into job values (?, ?, ?)", (names.index(name), name, kind))
                names[names.index(name)] = (name,)
            job = next(i for i, each in enumerate(names) if each in (name, (name,)))
            database.execute("insert into job_instance values (?, ?)", (number, job))
            values = (number, BEGAN_S + from_s, to_s - from_s, code)
            database.execute("insert into invocation values (?, 1, ?, ?, ?)", values)
            database.execute("insert into invocation values (?, -2, ?, 0, 0)", (number, BEGAN_S + to_s))
        for number, (name, size) in enumerate(SIZES.items()):
            database.execute("insert into rc_lfn values (?, ?)", (number, name))
            database.execute("insert into rc_meta values (?, 'size', ?)", (number, str(size)))
    database.close()


RUNS = [
    ("create_dir_wf_0_bb", "create-dir", 0, 1, 0),
    ("stage_in_local_bb_0_0", "stage-in-tx", 1, 2, 256),
    ("stage_in_local_bb_0_0", "stage-in-tx", 3, 10, 0),
    ("one", "compute", 11, 20, 0),
    ("two", "compute", 21, 30, 0),
    ("clean_up_bb_level_1_0", "cleanup", 31, 32, 0),
    ("clean_up_bb_level_1_1", "cleanup", 33, 34, 0),
    ("cleanup_wf_0_bb", "cleanup", 35, 36, 0),
]


@pytest.fixture
def submit(tmp_path):
    path = tmp_path / "submit"
    Planner(path, JOBS, SIZES, properties=["pegasus.bbflow.capacity=1000", "pegasus.bbflow.slots=1"])
    return path


def read(path):
    where = open_submit_dir(path)
    records = read_records(where)
    planned = read_planned(where, parse_dag(where.dag.read_text()), "bb")
    return planned, records, {each.name: each for each in holdings(planned, records)}


def spans(held):
    return {each.name: (each.from_s - BEGAN_S, each.to_s - BEGAN_S, each.size_bytes) for each in held}


def test_files_lie_there_from_their_arrival_to_their_clean_up(submit):
    record(submit, RUNS)
    planned, records, held = read(submit)
    assert records.jobs["stage_in_local_bb_0_0"].attempts == 2
    removed = {"in_0": 32, "in_1": 34, "out_0": 32}
    assert spans(held.values()) == {
        "in_0": (10, removed["in_0"], 300),
        "in_1": (10, removed["in_1"], 200),
        "out_0": (20, removed["out_0"], 50),
    }
    first = plain(held.values(), planned, records)
    assert spans(first) == {"in_0": (10, 20, 300), "in_1": (10, 30, 200), "out_0": (20, 32, 50)}


def test_our_own_notes_tell_when_a_file_came_to_the_millisecond(submit):
    record(submit, RUNS)
    notes = submit / "bbflow" / "stage_in_local_bb_0_0"
    notes.mkdir(parents=True)
    event = {"event": "transfer", "url": "/pfs/input/in_1", "fetcher": 0, "started_s": BEGAN_S + 4, "bytes": 200}
    (notes / "events.jsonl").write_text(json.dumps(event | {"ended_s": BEGAN_S + 5.5}) + "\n")
    assert read(submit)[2]["in_1"].from_s == BEGAN_S + 5.5


def test_what_has_not_run_yet_is_not_there_yet(submit):
    record(submit, RUNS[:4])
    _, _, held = read(submit)
    assert spans(held.values()) == {"in_0": (10, 20, 300), "in_1": (10, 20, 200), "out_0": (20, 20, 50)}


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20), st.integers(0, 9)), min_size=1, max_size=12),
)
def test_the_level_at_any_time_is_the_sum_of_what_lies_there(spans):
    held = [Held(str(n), size, min(a, b), max(a, b), True) for n, (a, b, size) in enumerate(spans)]
    times, values = levels(held)
    for time_s, value in zip(times, values, strict=True):
        assert value == sum(each.size_bytes for each in held if each.from_s <= time_s < each.to_s)
    assert values[-1] == 0
    assert peak_bytes(held) == max(values)


def test_the_page_says_the_figures_and_draws_both_pictures(submit, capsys):
    assert main(["wave", str(submit)]) == 0
    waves = json.loads((submit / "bbflow-waves.json").read_text())["waves"]
    stage_ins = [name for wave in waves for name in wave["stage_ins"]]
    dag = parse_dag((submit / "wf-0.dag").read_text())
    clean_ups = [name for name in dag.nodes if name.startswith("clean_up_")]
    record(
        submit,
        [("create_dir_wf_0_bb", "create-dir", 0, 1, 0)]
        + [(name, "stage-in-tx", 1 + n, 2 + n, 0) for n, name in enumerate(stage_ins)]
        + [("one", "compute", 11, 20, 0), ("two", "compute", 21, 30, 0)]
        + [(name, "cleanup", 31, 32, 0) for name in clean_ups],
    )
    assert main(["report", str(submit)]) == 0
    page = (submit / "bbflow-report.html").read_text()
    assert capsys.readouterr().out.endswith("bbflow-report.html\n")
    text = re.sub(r"<[^>]+>", " ", re.sub(r"(?s)<style>.*?</style>|base64,[^\"]+", "", page))
    words = " ".join(text.split())
    assert "Complete." in words
    assert "Makespan 32 s" in words
    assert re.search(r"Most on the burst buffer \d+ B \d+% of 1000 B", words)
    assert page.count("data:image/png") == 2
    assert len(re.findall(r"\d+ to \d+ s", words)) >= len(waves)


@pytest.mark.parametrize(
    ("runs", "line"),
    [(None, "has no records of a run"), ([RUNS[0]], "nothing came to site 'bb'")],
    ids=["never run", "nothing staged"],
)
def test_without_a_run_the_error_says_what_is_missing(submit, capsys, runs, line):
    if runs is not None:
        record(submit, runs)
    assert main(["report", str(submit)]) != 0
    said = capsys.readouterr().err
    assert line in said
    assert len(said.splitlines()) == 1


def test_a_job_that_failed_is_named(submit):
    record(submit, [*RUNS[:3], ("one", "compute", 11, 20, 1)])
    assert main(["report", str(submit)]) == 0
    assert "1 jobs failed, the first of them one." in (submit / "bbflow-report.html").read_text()
