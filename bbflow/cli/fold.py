"""Fold a stream of BB nodes that are there, until it ends; what another analysis began is continued.

Example:
  bbflow fold analysis.yml --contact contact.json --scheduler scheduler.json
"""

import argparse
import gc
import sys
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from bbflow.cli.analysing import add_continue, add_take_over, configured
from bbflow.errors import BbflowError, ConfigError
from bbflow.host.dumps import write_no_cores
from bbflow.host.freed_memory import keep_freed_memory
from bbflow.host.leftovers import name_semaphores
from bbflow.host.log import tell
from bbflow.host.one_thread import with_one_thread
from bbflow.run.prepared import TOLD

SWITCH_S = 0.0005
"""How long Dask's loop waits while the driver plans: a tenth of the default, and a task needs it several times."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("config", type=Path, metavar="CONFIG.yml", help="what to compute")
    parser.add_argument(
        "--contact",
        type=Path,
        required=True,
        help="contact file of the BB nodes; - to read its path from standard input once they are there",
    )
    parser.add_argument("--scheduler", help="a Dask scheduler's address or file (default: as 'workers' says)")
    add_continue(parser)
    add_take_over(parser)
    parser.add_argument(
        "--finish", action="store_true", help="fold no further step: publish what is folded, and save its state"
    )
    parser.add_argument(
        "--lost",
        action="append",
        default=[],
        metavar="NODE",
        help="continue without this BB node, which is gone for good; results say which points lack which steps",
    )
    parser.add_argument("--output-held", action="store_true", help="who starts this holds the output for it")


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    write_no_cores()
    name_semaphores()
    with_one_thread()
    keep_freed_memory()
    sys.setswitchinterval(SWITCH_S)
    gc.disable()  # what is imported stays: looking for garbage in it takes a tenth of the time
    from bbflow.api import connect
    from bbflow.run.course import INCOMPLETE
    from bbflow.run.strays import names_on
    from bbflow.transit.clusters.local_cluster import local_cluster

    # And once that is over, no later search looks at it either.
    gc.freeze()
    gc.enable()
    asked: dict[str, Any] = {"output_held": options.output_held, "take_over": options.take_over, "lost": options.lost}
    is_told = str(options.contact) == TOLD
    with ExitStack() as stack:
        try:
            config = configured(options)
            dask = options.scheduler or stack.enter_context(local_cluster(config.workers))
        except BbflowError:
            if is_told and options.output_held and _told_contact() is None:
                return 0  # who started this has found the same, and says it
            raise
        contact = _told_contact() if is_told else options.contact
        if contact is None:
            if options.output_held:
                return 0
            raise ConfigError("--contact - reads the contact file's path from standard input, and there was none")
        before = set[str]() if options.output_held else names_on(contact)
        stack.enter_context(_saying_what_is_lost() if options.finish else nullcontext())
        analysis = connect(contact).analyse(config, dask, folds=not options.finish, **asked)
        outcome = stack.enter_context(analysis).wait()
    for error in outcome.errors if outcome else ():
        tell(str(error))
    came = 0 if options.output_held else _tell_strays(contact, before)  # 'bbflow run' looks for them itself
    return 0 if outcome is not None and outcome.complete and not came else INCOMPLETE


@contextmanager
def _saying_what_is_lost() -> Iterator[None]:
    """Add to an error what follows from it: the analysis before may have ended with the same one."""
    try:
        yield
    except BbflowError as error:
        raise type(error)(f"what was folded can't be published: {error}") from None


def _tell_strays(contact: Path, before: Collection[str]) -> int:
    """Name the ended streams that are still unclaimed, and say how many of them have come meanwhile."""
    from bbflow.run.strays import describe_left, statuses_of, strays_of  # late, as all above

    strays = [stray for stray in strays_of(statuses_of(contact)) if not stray.is_open]
    for stray in strays:
        tell(describe_left(stray, contact))
    return sum(stray.name not in before for stray in strays)


def _told_contact() -> Path | None:
    """Wait to be told the contact file; None if who started this has given up."""
    line = sys.stdin.readline().rstrip("\n")
    return Path(line) if line else None
