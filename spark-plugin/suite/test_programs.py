"""Programs that know nothing of bbflow read what they would read without it."""

import subprocess
import sys

import pytest
from running import environment, submit, submit_words

KINDS = """
import json, sys
from pyspark.sql import SparkSession
folder = sys.argv[1]
spark = SparkSession.builder.getOrCreate()
sc = spark.sparkContext
rows = spark.range(0, 200000, 1, 4).selectExpr("id", "concat('name-', id % 97) as name", "rand(7) as value")
for kind in ("parquet", "orc", "json"):
    rows.write.format(kind).save(f"{folder}/{kind}")
lines = sc.textFile(f"{folder}/large.txt", 5)
found = {"partitions": lines.getNumPartitions(), "lines": lines.count(), "sum": lines.map(int).sum()}
found["two files"] = lines.union(sc.textFile(f"{folder}/small.txt", 1)).count()
found["cached"] = (lines.cache().count(), lines.count())
found["whole"] = sc.wholeTextFiles(f"{folder}/small.txt").count()
for kind in ("parquet", "orc", "json"):
    table = spark.read.format(kind).load(f"{folder}/{kind}")
    table.createOrReplaceTempView(kind)
    chosen = f"from {kind} where name != 'name-3'"
    found[kind] = spark.sql(f"select count(*), sum(id), count(distinct name) {chosen}").first()
found["join"] = spark.sql("select count(*) from parquet join orc using (id)").first()[0]
print("FOUND", json.dumps(found))
"""


def test_rdds_and_tables_of_every_format_give_what_is_in_them_and_come_from_the_burst_buffer(tmp_path):
    numbers = range(300_000)
    (tmp_path / "large.txt").write_text("".join(f"{n}\n" for n in numbers))
    (tmp_path / "small.txt").write_text("one\ntwo\n")
    done = submit(tmp_path, KINDS, tmp_path, conf={"spark.sql.files.maxPartitionBytes": "400k"})
    assert done.code == 0, done.said
    found = eval(done.said.partition("FOUND ")[2].splitlines()[0])
    wanted = [200_000 - 2062, sum(range(200_000)) - sum(range(3, 200_000, 97)), 96]
    assert found == {
        "partitions": 5,
        "lines": len(numbers),
        "sum": sum(numbers),
        "two files": len(numbers) + 2,
        "cached": [len(numbers)] * 2,
        "whole": 1,
        "join": 200_000,
        **dict.fromkeys(("parquet", "orc", "json"), wanted),
    }
    assert done.reads[True] > 40
    assert done.reads[False] == 0
    assert done.read_bytes > 2 * (tmp_path / "large.txt").stat().st_size, "it is read more often than twice"


def test_a_python_program_without_spark_submit_is_served_too(tmp_path):
    (tmp_path / "in.txt").write_text("a\nb\n" * 1000)
    program = "from pyspark import SparkContext; print('N', SparkContext('local[2]').textFile('%s').count())"
    words = submit_words(tmp_path / "bb", "--capacity", "1MiB")
    words = [*words[: words.index("--") + 1], sys.executable, "-c", program % (tmp_path / "in.txt")]
    done = subprocess.run(words, capture_output=True, text=True, env=environment(), timeout=300)
    assert "N 2000" in done.stdout, done.stderr
    assert '"staged": true' in (tmp_path / "bb/notes/events.jsonl").read_text()


LISTED = """
import sys
from pyspark import SparkContext
sc = SparkContext()
print("N", sc.textFile(sys.argv[1]).count())
"""


@pytest.mark.parametrize(("name", "said"), [("none.txt", "Input path does not exist"), ("x-*", "matches 0 files")])
def test_an_input_that_is_missing_is_named_as_ever(tmp_path, name, said):
    done = submit(tmp_path, LISTED, tmp_path / name)
    assert done.code != 0
    assert said in done.said


CHANGES = """
import os, sys
from pyspark import SparkContext
sc, folder = SparkContext(), sys.argv[1]
lines = sc.textFile(folder)
print("PLANNED", lines.getNumPartitions())
with open(f"{folder}/b.txt", "a") as file:
    file.write("more\\n" * 1000)
with open(f"{folder}/new.txt", "w") as file:
    file.write("new\\n")
print("N", lines.count())
"""


def test_a_directory_that_changes_after_it_was_listed_is_read_as_it_was_planned(tmp_path):
    (tmp_path / "in").mkdir()
    for name in ("a", "b", "c"):
        (tmp_path / "in" / f"{name}.txt").write_text("line\n" * 1000)
    done = submit(tmp_path, CHANGES, tmp_path / "in")
    assert done.code == 0, done.said
    # As without bbflow: a reader of lines continues to the first end of a line after its split.
    assert "N 3001" in done.said


GOES = """
import os, sys
from pyspark import SparkContext
sc, folder = SparkContext(), sys.argv[1]
lines = sc.textFile(folder)
print("PLANNED", lines.getNumPartitions())
os.remove(f"{folder}/b.txt")
print("N", lines.count())
"""


def test_an_input_that_is_removed_after_it_was_listed_is_what_spark_says_of_it(tmp_path):
    (tmp_path / "in").mkdir()
    for name in ("a", "b", "c"):
        (tmp_path / "in" / f"{name}.txt").write_text("line\n" * 1000)
    done = submit(tmp_path, GOES, tmp_path / "in")
    assert done.code != 0
    assert "in/b.txt does not exist" in done.said


def test_blocks_that_are_larger_than_the_burst_buffer_are_read_from_their_source(tmp_path):
    (tmp_path / "in.txt").write_text("0123456789\n" * 200_000)
    done = submit(tmp_path, LISTED, tmp_path / "in.txt", options=("--capacity", "100kB", "--no-shuffle"))
    assert "N 200000" in done.said, done.said
    assert done.reads[True] == 0
    assert done.reads[False] == 2


SHUFFLES = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
rows = spark.range(0, 3000000, 1, 12).selectExpr("id", "sha2(cast(id as string), 256) as text")
print("N", rows.repartition(4, "text").groupBy("text").count().count())
"""


def test_a_shuffle_that_has_no_room_spills_to_the_disk(tmp_path):
    done = submit(tmp_path, SHUFFLES, options=("--capacity", "40MB"))
    assert "N 3000000" in done.said, done.said
    assert max(event["disk_bytes"] for event in done.events("shuffle")) > 0
    assert not (tmp_path / "bb-disk").exists()


def run_instead(bb, program, *options):
    words = submit_words(bb, "--capacity", "64MiB", *options)
    words = [*words[: words.index("--") + 1], *program]
    return subprocess.run(words, capture_output=True, text=True, env=environment(), timeout=60)


@pytest.mark.parametrize("options", [("--slots", "0"), ("--lookahead", "-2"), ("--fetchers", "0")])
def test_what_the_stager_refuses_is_said_before_spark_begins(tmp_path, options):
    done = run_instead(tmp_path / "bb", ["echo", "begun"], *options)
    assert (done.returncode, done.stdout) == (64, "")
    assert "at least one fetcher" in done.stderr or "waves need a slot" in done.stderr


def test_a_directory_has_one_prefetcher(tmp_path):
    again = submit_words(tmp_path / "bb", "--capacity", "64MiB")
    again = [*again[: again.index("--") + 1], "echo", "begun"]
    done = run_instead(tmp_path / "bb", again)
    assert (done.returncode, done.stdout) == (64, "")
    assert f"another prefetcher uses {tmp_path / 'bb'}:" in done.stderr


def test_tables_of_data_sources_of_the_second_kind_come_from_the_burst_buffer(tmp_path):
    (tmp_path / "in.txt").write_text("a\nb\n" * 1000)
    done = submit(tmp_path, SECOND, tmp_path / "in.txt", conf={"spark.sql.sources.useV1SourceList": ""})
    assert "N 2000" in done.said
    assert (done.reads[True] > 0, done.reads[False]) == (True, 0)


SECOND = """
import sys
from pyspark.sql import SparkSession
print("N", SparkSession.builder.getOrCreate().read.text(sys.argv[1]).count())
"""
