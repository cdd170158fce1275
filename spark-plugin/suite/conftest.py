"""The suite runs real Spark: `make spark-suite`."""

import shutil

import pytest

from bbflow.errors import MissingToolError


def pytest_collection_modifyitems(items):
    from bbflow_spark.classes import find_spark

    try:
        find_spark()
        reason = None if shutil.which("javac") else "javac isn't on PATH: apt install default-jdk"
    except MissingToolError as error:
        reason = str(error)
    if reason:
        for item in items:
            item.add_marker(pytest.mark.skip(reason=reason))
