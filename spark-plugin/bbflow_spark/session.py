"""A prefetcher with all that belongs to it: directories, the contact file, and the settings that Spark needs."""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir

from bbflow.events import EventLog
from bbflow.host.atomic import replacing
from bbflow.host.locks import locked_alone
from bbflow.staging import Stager
from bbflow_spark.classes import Spark, compiled_jar
from bbflow_spark.prefetcher import Prefetcher
from bbflow_spark.serving import served
from bbflow_spark.settings import SparkPlaces, settings
from bbflow_spark.shuffles import INPUTS_SHARE, Shuffles, shared_room
from bbflow_spark.spilling import remove_leftovers, spilling

INPUTS, SHUFFLE, CONTACT, SPARK_EVENTS, JAR = "inputs", "shuffle", "contact.json", "spark", "bbflow-spark.jar"
LOCK = ".lock"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a user wants of a prefetcher."""

    directory: Path
    """On the BB; inputs and shuffles lie below it."""
    notes: Path
    """Where events are noted, those of Spark too."""
    capacity_bytes: int
    """For inputs and shuffles."""
    slots: int | None
    """Tasks at once; None to believe Spark's driver."""
    lookahead: int
    """Waves ahead."""
    listen: str
    """``host[:port]``."""
    contact: Path
    """The contact file."""
    schemes: Sequence[str]
    """Of the URLs that go through the prefetcher, beside ``file``."""
    patience_s: float
    """How long a transfer may be stuck."""
    disk: Path | None
    """Where shuffles go for which the BB has no room; None leaves all of them where Spark puts them."""


@contextmanager
def prefetching(
    wanted: Wanted, spark: Spark, open_stager: Callable[[Path, int, EventLog], Stager]
) -> Iterator[Mapping[str, str]]:
    """Prefetch for as long as the block lasts; gives Spark's settings.

    Parameters
    ----------
    wanted
        By the user.
    spark
        The installation that our classes are compiled for.
    open_stager
        Makes the stager, for a directory, slots and events.

    Raises
    ------
    BbflowError
        If anything can't be set up.
    """
    remove_leftovers(Path(gettempdir()))
    compiled = compiled_jar(spark)
    shuffle = wanted.directory / SHUFFLE if wanted.disk else None
    events = wanted.notes / SPARK_EVENTS
    for made in filter(None, (wanted.directory, shuffle, events)):
        made.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        # The first of two to end would take contact file and shuffles with it.
        refusal = f"another prefetcher uses {wanted.directory}: give another directory as --to"
        stack.enter_context(locked_alone(wanted.directory / LOCK, refusal, create=True))
        jar = wanted.directory / JAR  # which all hosts see, unlike the user's cache
        with replacing(jar) as temporary:
            shutil.copyfile(compiled, temporary)
        log = EventLog(wanted.notes)
        stack.callback(log.close)

        def opened(slots: int) -> Stager:
            return open_stager(wanted.directory / INPUTS, slots if wanted.slots is None else wanted.slots, log)

        opened(1).close()  # what it refuses is said to the user now; later it could be told to Spark alone
        prefetcher = Prefetcher(opened, wanted.lookahead, wanted.patience_s, log)
        stack.enter_context(served(prefetcher, wanted.listen, wanted.contact, wanted.directory))
        if shuffle is not None and wanted.disk is not None:
            stack.enter_context(spilling(wanted.disk, shuffle))
            shuffles = Shuffles(shuffle, wanted.disk, int(wanted.capacity_bytes * (1 - INPUTS_SHARE)))
            stack.enter_context(shared_room(shuffles, wanted.capacity_bytes, prefetcher.resize, log))
        yield settings(SparkPlaces(jar, wanted.contact, shuffle, events), wanted.schemes)
