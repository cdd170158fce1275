"""What Spark is told: its settings, and how they come to a program that a user starts as ever."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PLUGIN = "bbflow.spark.Plugin"
LOCAL, REMOTE = "bbflow.spark.LocalBlocks", "bbflow.spark.RemoteBlocks"
SUBMITTING = ("spark-submit", "spark-sql", "spark-shell", "pyspark")
"""Programs that take ``--conf``; others get it by an environment variable of PySpark."""
ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
_PATHS = ("spark.driver.extraClassPath", "spark.executor.extraClassPath")
_JOINED = {"spark.plugins": ",", "spark.jars": ",", **dict.fromkeys(_PATHS, ":")}
"""Settings that the user may have too, and what stands between two values."""
_SHORT = {"--driver-class-path": "spark.driver.extraClassPath", "--jars": "spark.jars"}


@dataclass(frozen=True, slots=True)
class SparkPlaces:
    """What the settings name; every host of Spark sees it under the same path."""

    jar: Path
    """Our classes."""
    contact: Path
    """The prefetcher's contact file."""
    shuffle: Path | None = None
    """Directory on the BB for shuffles and spills; None leaves them where they are."""
    events: Path | None = None
    """Directory of Spark's event log; None leaves it as it is."""


def settings(places: SparkPlaces, schemes: Sequence[str]) -> dict[str, str]:
    """Return the settings, by name.

    Parameters
    ----------
    places
        What they name.
    schemes
        Of the URLs whose reads go through the prefetcher, beside ``file``.
    """
    told = {
        "spark.plugins": PLUGIN,
        "spark.driver.extraClassPath": str(places.jar),
        "spark.executor.extraClassPath": str(places.jar),
        "spark.jars": str(places.jar),  # Spark sends it to executors that don't see the burst buffer
        "spark.hadoop.bbflow.contact": str(places.contact),
        "spark.hadoop.fs.file.impl": LOCAL,
    }
    told |= {f"spark.hadoop.fs.{scheme}.impl": REMOTE for scheme in schemes}
    if places.shuffle is not None:
        told["spark.local.dir"] = str(places.shuffle)
    if places.events is not None:
        told |= {"spark.eventLog.enabled": "true", "spark.eventLog.dir": places.events.as_uri()}
        told["spark.eventLog.compress"] = "false"  # else the report couldn't read it
    return told


def words_with(told: Mapping[str, str], words: Sequence[str]) -> list[str]:
    """Put settings into the words of a program that takes ``--conf``; what the user says there stays.

    Where both have a list, such as plugins, the user's comes first; any other setting of the user counts alone.
    """
    own = _said(words)
    added: list[str] = []
    for name, value in told.items():
        joined = f"{own[name]}{_JOINED[name]}{value}" if name in own and name in _JOINED else value
        if name not in own or name in _JOINED:
            added += ["--conf", f"{name}={joined}"]
    return [words[0], *added, *_without_lists(words[1:])]


def environment_with(told: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment in which a Python program's own SparkSession has the settings."""
    before = shlex.split(environment.get(ARGUMENTS, "pyspark-shell"))
    return {**environment, ARGUMENTS: shlex.join(words_with(told, ["", *before])[1:])}


def _said(words: Sequence[str]) -> dict[str, str]:
    """Return the settings that are among the words."""
    said: dict[str, str] = {}
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word in ("--conf", "-c"):
            name, _, value = following.partition("=")
            said[name] = value
        elif word in _SHORT:
            said[_SHORT[word]] = following
    return said


def _without_lists(words: Sequence[str]) -> list[str]:
    """Leave out what was joined."""
    kept: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        listed = word in _SHORT or (word in ("--conf", "-c") and rest and rest[0].partition("=")[0] in _JOINED)
        if listed and rest:
            rest.pop(0)
        else:
            kept.append(word)
    return kept
