"""Spark's event log, and the page that is made of it."""

import json

import pytest
from bbflow_spark.eventlog import covered_s, find_logs, read_log
from bbflow_spark.report import make_report

from bbflow.errors import ConfigError
from bbflow.events import EventLog


def stage(number, started_s, ended_s, input_bytes):
    """Return the events of a stage with one task, as Spark writes them."""
    info = {"Stage ID": number, "Stage Attempt ID": 0, "Stage Name": f"count at <x>:{number}"}
    times = {"Submission Time": int(started_s * 1e3), "Completion Time": int(ended_s * 1e3)}
    task = {"Index": 0, "Partition ID": 0, "Launch Time": int(started_s * 1e3), "Finish Time": int(ended_s * 1e3)}
    metrics = {"Input Metrics": {"Bytes Read": input_bytes}, "Shuffle Write Metrics": {"Shuffle Bytes Written": 7}}
    told = {"Stage ID": number, "Task End Reason": {"Reason": "Success"}, "Task Info": task, "Task Metrics": metrics}
    return [
        {"Event": "SparkListenerTaskEnd", **told},
        {"Event": "SparkListenerStageCompleted", "Stage Info": info | times},
    ]


def write_log(path, *events, ended=True):
    start = {"Event": "SparkListenerApplicationStart", "App Name": "Sort", "App ID": "app-1", "Timestamp": 100_000}
    end = [{"Event": "SparkListenerApplicationEnd", "Timestamp": 120_000}] if ended else []
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(event) + "\n" for event in [start, *events, *end]))


def test_map_and_reduce_phases_are_told_apart_and_overlaps_count_once(tmp_path):
    # As a rolling log: a directory of files.
    path = tmp_path / "spark/eventlog_v2_app-1/events_1_app-1"
    write_log(path, *stage(0, 102, 106, 9), *stage(1, 105, 108, 9), *stage(2, 110, 111, 0))
    (log,) = find_logs(tmp_path / "spark")
    ran = read_log(log)
    assert (ran.map_s, ran.reduce_s, ran.ended_s) == (6, 1, 120)
    assert [one.is_map for one in ran.stages] == [True, True, False]
    assert covered_s([(0, 1), (3, 5), (4, 6)]) == 4


def test_the_page_shows_a_run_beside_what_the_prefetcher_noted(tmp_path):
    write_log(tmp_path / "spark/app-1", *stage(0, 102, 106, 9), ended=False)
    log = EventLog(tmp_path)
    times = {"started_s": 103.0, "ended_s": 104.0}
    log.add("transfer", url="/f", wave=0, fetcher=0, bytes=9, **times)
    log.add("read", application="app-1", stage=0, partition=0, bytes=9, staged=True, **times)
    log.add("shuffle", at_s=105.0, bb_bytes=7_000_000, disk_bytes=0)
    log.close()
    page = make_report(tmp_path, tmp_path / "spark")
    assert "Spark application Sort" in page
    assert "has no end" in page
    assert "count at &lt;x&gt;:0" in page
    assert "100%" in page


def test_without_a_log_it_says_where_there_is_none(tmp_path):
    with pytest.raises(ConfigError, match="no event log of Spark"):
        make_report(tmp_path, tmp_path / "spark")
    (tmp_path / "log").write_text("not json\n")
    with pytest.raises(ConfigError, match="compress"):
        read_log(tmp_path / "log")
