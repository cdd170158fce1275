"""What Spark's plans come to: which partitions the stager knows, which blocks a read is in, how long a task waits."""

import os
import shutil
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest
from bbflow_spark.patience import ROOM_S, Look, Patience
from bbflow_spark.plans import PlannedBlock, StageQuestion, read_plan, read_question
from bbflow_spark.program import SparkProgram
from bbflow_spark.settings import ARGUMENTS, SparkPlaces, environment_with, settings, words_with
from bbflow_spark.shuffles import Shuffles, Taken
from bbflow_spark.spilling import remove_leftovers, spilling

from bbflow.cli import main
from bbflow.errors import ProtocolError
from bbflow.stores.urls import Range

PLACES = SparkPlaces(jar="/c/b.jar", contact="/bb/contact.json")


def plan(*files, stage=1, slots=2, size=100):
    """Return a stage whose partitions read one range each, cut from files in turn."""
    partitions = [[number, [[url, start, size]]] for number, (url, start) in enumerate(files)]
    return read_plan({"app": "a", "stage": stage, "attempt": 0, "slots": slots, "partitions": partitions})


def ask(partition, url, at, stage=1):
    return StageQuestion(("a", stage, 0, partition), url, at)


def test_partitions_are_fed_in_order_and_one_for_each_that_is_done():
    program = SparkProgram(window=2)
    program.plan(plan(*((f"/f{n}", 0) for n in range(4))))
    assert [p.key[3] for p in program.feed()] == [0, 1]
    assert program.feed() == []
    assert program.later() == ["bytes=0-100::/f2", "bytes=0-100::/f3"]
    assert program.done(("a", 1, 0, 1))
    assert not program.done(("a", 1, 0, 3))  # one that the stager never knew
    assert program.later() == ["bytes=0-100::/f2"]
    assert [p.key[3] for p in program.feed()] == [2]
    assert sorted(key[3] for key in program.over(("a", 1, 0))) == [0, 2]
    assert program.feed() == []


def test_a_read_is_in_its_own_block_or_in_one_of_another_partition_or_in_none():
    program = SparkProgram()
    program.plan(plan(("/f", 0), ("/f", 100), ("/f", 300)))
    assert program.own(ask(1, "/f", 150)) == PlannedBlock("/f", Range(100, 200))
    assert program.own(ask(1, "/f", 200)) is None
    assert program.others(ask(1, "/f", 99)) == [PlannedBlock("/f", Range(0, 100))]
    assert program.others(ask(1, "/f", 200)) == []
    assert program.next_start(ask(1, "/f", 200)) == 300
    assert program.next_start(ask(1, "/f", 300)) is None
    assert program.next_start(ask(1, "/g", 0)) is None


def test_a_block_stays_known_until_its_last_reader_is_done():
    program = SparkProgram()
    program.plan(plan(("/f", 0), stage=1))
    program.plan(plan(("/f", 0), stage=2))
    program.done(("a", 1, 0, 0))
    assert program.others(ask(7, "/f", 0)) == [PlannedBlock("/f", Range(0, 100))]
    program.end("a")
    assert program.others(ask(7, "/f", 0)) == []


def test_a_plan_leaves_out_what_is_empty_and_refuses_what_is_none():
    assert plan(("/f", 0), size=0).partitions == ()
    assert plan(("/f", 5)).partitions[0].blocks[0].file.url == "bytes=5-105::/f"
    for broken in ({}, {"app": "a", "stage": 1, "attempt": 0, "slots": 1, "partitions": [[0, [["/f", "x", 1]]]]}):
        with pytest.raises(ProtocolError):
            read_plan(broken)
    with pytest.raises(ProtocolError):
        read_question({"app": "a", "stage": 1, "attempt": 0, "partition": 0, "url": "/f"})


def looks(patience, *seen):
    """Return what comes of looks: time, has room, restricted, bytes."""
    return [patience.waits(Look(*look)) for look in seen]


def test_a_task_waits_while_its_block_moves_or_others_hold_it_and_no_longer():
    assert looks(Patience(5), (0, True, False, 0), (4, True, False, 10), (8.9, True, False, 10)) == [True] * 3
    assert looks(Patience(5), (0, True, False, 0), (5, True, False, 0)) == [True, False]
    assert looks(Patience(5), (0, True, False, 0), (600, True, True, 0), (604, True, False, 0)) == [True] * 3
    assert looks(Patience(5), (0, False, False, 0), (ROOM_S, False, False, 9)) == [True, False]
    assert looks(Patience(5), (0, False, False, 0), (0.5, True, False, 9), (1.2, True, False, 9)) == [True] * 3


def test_the_users_settings_stay_and_lists_are_joined():
    told = settings(PLACES, ["s3a"])
    words = ["spark-submit", "--conf", "spark.plugins=my.Own", "--driver-class-path", "/x", "--jars", "/y"]
    words += ["--master", "local", "a.py"]
    given = words_with(told, words)
    assert given[0] == "spark-submit"
    assert given[-3:] == ["--master", "local", "a.py"]
    assert "spark.plugins=my.Own,bbflow.spark.Plugin" in given
    assert "spark.driver.extraClassPath=/x:/c/b.jar" in given
    assert "spark.jars=/y,/c/b.jar" in given
    assert "spark.plugins=my.Own" not in given
    assert "spark.hadoop.fs.s3a.impl=bbflow.spark.RemoteBlocks" in given
    own = words_with(told, ["spark-submit", "--conf", "spark.hadoop.fs.file.impl=Mine", "a.py"])
    assert own.count("spark.hadoop.fs.file.impl=Mine") == 1
    assert not any("LocalBlocks" in word for word in own)


def test_the_catalog_for_one_host_says_what_the_wrapper_says():
    there = Path("/dev/shm/me")
    places = SparkPlaces(
        there / "bbflow-spark.jar", there / "contact.json", there / "shuffle", there / "notes" / "spark"
    )
    lines = (files("bbflow_catalogs") / "spark" / "one-host.conf").read_text().splitlines()
    said = dict(line.split() for line in lines if not line.startswith("#"))
    assert said == settings(places, ["s3a"]) | {"spark.eventLog.dir": "file:/dev/shm/me/notes/spark"}


def test_shuffles_that_other_hosts_read_need_a_place_that_they_see(tmp_path, capsys):
    assert main(["spark", "serve", "--to", str(tmp_path), "--capacity", "1MiB", "--listen", "0.0.0.0"]) == os.EX_USAGE
    assert "--spill" in capsys.readouterr().err


def test_a_full_burst_buffer_is_told_with_what_to_do(capsys):
    assert main(["spark", "serve", "--to", "/proc/burst-buffer"]) == os.EX_USAGE  # a file system with no room at all
    said = capsys.readouterr().err
    assert "0 B left" in said
    assert "--capacity" in said


def test_a_python_program_gets_the_settings_by_its_environment():
    environment = environment_with(settings(PLACES, []), {"A": "b", ARGUMENTS: "--master local[2] pyspark-shell"})
    assert environment["A"] == "b"
    assert environment[ARGUMENTS].endswith("--master 'local[2]' pyspark-shell")
    assert "spark.plugins=bbflow.spark.Plugin" in environment[ARGUMENTS]


def shuffled(folder):
    """Make what a worker's executor has written: four files of 100 bytes, and one that isn't whole."""
    bb = folder / "spark-1/executor-1/blockmgr-1/0a"
    bb.mkdir(parents=True)
    for number in range(4):
        (bb / f"shuffle_0_{number}_0.data").write_bytes(bytes([number]) * 100)
        os.utime(bb / f"shuffle_0_{number}_0.data", (number, number))
    (bb / "temp_shuffle_x").write_bytes(bytes(50))
    return bb


def test_shuffles_that_are_too_much_go_to_the_disk_and_can_still_be_read(tmp_path):
    bb, disk = shuffled(tmp_path / "bb"), tmp_path / "disk"
    disk.mkdir()
    shuffles = Shuffles(tmp_path / "bb", disk, 250)
    assert shuffles.look() == Taken(250, 200)
    assert [path.is_symlink() for path in sorted(bb.iterdir())] == [True, True, False, False, False]
    assert (bb / "shuffle_0_1_0.data").read_bytes() == b"\1" * 100
    (bb / "shuffle_0_1_0.data").unlink()
    assert shuffles.look() == Taken(250, 100)


LEAVES = """
import os, signal, sys
from pathlib import Path
from bbflow_spark.shuffles import Shuffles
from bbflow_spark.spilling import spilling
disk, shuffle = map(Path, sys.argv[1:])
with spilling(disk, shuffle):
    Shuffles(shuffle, disk, 0).look()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_prefetcher_has_left_goes_when_no_spark_reads_it_any_more(tmp_path):
    bb, dead, alive = shuffled(tmp_path / "bb"), tmp_path / "bbflow-spark-1", tmp_path / "bbflow-spark-2"
    subprocess.run([sys.executable, "-c", LEAVES, dead, tmp_path / "bb"], check=False)
    (tmp_path / "bbflow-spark-mine").mkdir()
    with spilling(alive, tmp_path / "other"):
        (bb / "shuffle_0_1_0.data").unlink()
        remove_leftovers(tmp_path)
        assert (bb / "shuffle_0_2_0.data").read_bytes() == b"\2" * 100, "its Spark goes on"
        assert len(list(dead.glob("moved-*"))) == 3
        shutil.rmtree(tmp_path / "bb")
        remove_leftovers(tmp_path)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["bbflow-spark-2", "bbflow-spark-mine"]
    assert not alive.exists()
