"""Our classes for Spark, compiled against the Spark that is installed."""

import os
import re
import shutil
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import as_file, files
from importlib.util import find_spec
from pathlib import Path

from bbflow.errors import MissingToolError
from bbflow.host.atomic import replacing
from bbflow.host.javac import compiled

SOURCES = files("bbflow_spark") / "java"
RELEASE = 17
"""Oldest Java that Spark 4 runs on."""
OLDEST = 4
_CORE = re.compile(r"spark-core_[\d.]+-((\d+)\..*)\.jar")


@dataclass(frozen=True, slots=True)
class Spark:
    """An installation of Spark."""

    home: Path
    """What SPARK_HOME says."""
    version: str
    """Such as 4.0.1."""


def find_spark(program: str | None = None, environment: Mapping[str, str] = os.environ) -> Spark:
    """Find the Spark that a program belongs to.

    Parameters
    ----------
    program
        Such as ``spark-submit``; SPARK_HOME comes first, then where it lies, then the pyspark of this Python.
    environment
        Environment variables.

    Raises
    ------
    MissingToolError
        If there is none, or it is too old.
    """
    for home in _homes(program, environment):
        for jar in (home / "jars").glob("spark-core_*.jar"):
            if found := _CORE.fullmatch(jar.name):
                if int(found[2]) < OLDEST:
                    raise MissingToolError(f"{home} is Spark {found[1]}: bbflow needs {OLDEST}.0 or later")
                return Spark(home, found[1])
    raise MissingToolError("there is no Spark: set SPARK_HOME, or pip install 'bbflow[spark]'")


def _homes(program: str | None, environment: Mapping[str, str]) -> list[Path]:
    homes = [Path(environment["SPARK_HOME"])] if environment.get("SPARK_HOME") else []
    found = shutil.which(program) if program else None
    if found:
        homes.append(Path(found).resolve().parents[1])
    spec = find_spec("pyspark")
    if spec is not None and spec.origin:
        homes.append(Path(spec.origin).parent)
    return homes


def compiled_jar(spark: Spark, cache: Path | None = None) -> Path:
    """Return a jar with our classes for an installation, made now unless it is there.

    Raises
    ------
    JavaUnavailableError
        If there is no Java compiler, or it doesn't accept our classes.
    """
    with as_file(SOURCES) as folder:
        sources = sorted(folder.rglob("*.java"))
        host = f"Spark {spark.version} ({spark.home})"
        classes = compiled(sources, host, RELEASE, lambda: str(spark.home / "jars" / "*"), cache)
    jar = classes.with_suffix(".jar")
    if not jar.exists():
        with replacing(jar) as temporary, zipfile.ZipFile(temporary, "w") as archive:
            for path in sorted(classes.rglob("*.class")):
                archive.write(path, path.relative_to(classes))
    return jar
