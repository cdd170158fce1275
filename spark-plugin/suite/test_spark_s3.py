"""Objects of S3 by s3a:, with Hadoop's classes as --packages brings them."""

import pytest
from running import submit

from bbflow.staging import Gate, Retry
from bbflow.staging.transfers import stage_out
from bbflow.stores.sources import Sources
from benchmarks.testbed.spark import s3a_jars
from testsupport.servers import object_server

PROGRAM = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
print("N", spark.read.text(sys.argv[1]).count(), spark.sparkContext.textFile(sys.argv[1] + "/*").count())
"""


def test_objects_come_from_the_burst_buffer_by_dataframe_and_rdd(tmp_path, monkeypatch):
    if (jars := s3a_jars()) is None:
        pytest.skip("Hadoop's S3A isn't in ~/.m2: see python -m benchmarks.testbed.spark")
    with object_server(tmp_path / "server.log") as url:
        told = {"ENDPOINT_URL": url, "ACCESS_KEY_ID": "k", "SECRET_ACCESS_KEY": "s", "REGION": "us-east-1"}
        for name, value in told.items():
            monkeypatch.setenv(f"AWS_{name}", value)
        (tmp_path / "text").write_text("line\n" * 5000)
        for number in range(4):
            stage_out(tmp_path / "text", f"s3://bucket/in/{number}.txt", Sources(), Gate(1), Retry())
        conf = {"endpoint": url, "endpoint.region": "us-east-1", "path.style.access": "true"}
        conf = {f"spark.hadoop.fs.s3a.{name}": value for name, value in conf.items()}
        conf["spark.jars"] = jars.replace(":", ",")
        # Spark copies the jars, 700 MB, to where shuffles are.
        done = submit(tmp_path, PROGRAM, "s3a://bucket/in", options=("--capacity", "4GiB"), conf=conf)
    assert "N 20000 20000" in done.said, done.said
    assert done.reads[True] >= 4
    assert done.reads[False] == 0
