"""What is seen before a run, for `bbflow check` and in the first lines of `bbflow run`: nothing is started for it."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import bbflow_adios2
from bbflow_adios2.selection import problems, read_selections, unknown_parameters

from bbflow.configuring.settings import Config
from bbflow.errors import BbflowError, CapacityError, ConfigError, NodeError
from bbflow.host.log import tell
from bbflow.landing.client import status_of
from bbflow.net.certificate import certificate_of
from bbflow.net.contact import NodeAddress, read_contact
from bbflow.run.checks.finding import FINE, NOTE, WRONG, Finding
from bbflow.run.checks.memory import check_memory, check_nodes, check_weights, per_point
from bbflow.run.checks.transport import check_transport
from bbflow.transit.driver.policy import check_policy
from bbflow.transit.output.copying import check_copy


def check_before(config: Config) -> list[Finding]:
    """Check that the drain's policy is known, and that the run can continue from the one before it."""
    try:
        check_policy(config.raw)
        check_copy(config)
        found = [Finding(FINE, "output", f"{config.copy_to}, by way of {config.output}")] if config.moves else []
        if config.continued is None:
            return found
        from bbflow.transit.chain.comparing import check_continued  # late: 'bbflow run' comes this way, too

        return [*found, Finding(FINE, "continue", f"continues from {check_continued(config, config.continued).path}")]
    except BbflowError as error:
        return [Finding(WRONG, "configuration", str(error))]


def check_engine() -> list[Finding]:
    """Check that the engine's library is there."""
    try:
        return [Finding(FINE, "engine", str(bbflow_adios2.library_path()))]
    except FileNotFoundError as error:
        return [Finding(WRONG, "engine", str(error))]


def check_xml(xml: Path, config: Config) -> list[Finding]:
    """Check that an XML selects the engine, with parameters that it knows, for the configuration's stream."""
    try:
        found = problems(read_selections(xml), config.stream)
    except ConfigError as error:
        return [Finding(WRONG, "xml", str(error))]
    if not found:
        return [Finding(FINE, "xml", f"{xml} selects bbflow for stream {config.stream!r}")]
    return [Finding(WRONG, "xml", f"{xml}: {problem}") for problem in found]


def check_select(config: Config) -> list[Finding]:
    """Check that rules which select from outside set parameters that the engine knows."""
    unknown = [text for rule in config.select for text in unknown_parameters(rule.parameters)]
    return [Finding(WRONG, "select", text) for text in unknown]


def check_run(config: Config, contact: Path | None, scheduler: str | None, free: int | None = None) -> list[Finding]:
    """Check that memory, nodes, Dask and windows are what a run needs; `free` as for `tell_before`."""
    found = [*_check_time(config), *check_weights(config)]
    nodes: Sequence[NodeAddress] = ()
    if contact is None:
        found += check_memory(config, free)
        hosts = {os.uname().nodename}
    else:
        try:
            nodes = read_contact(contact)
            found += check_nodes({node.name: status_of(node) for node in nodes})
        except BbflowError as error:
            return [*found, Finding(WRONG, "nodes", str(error))]
        found += per_point(config)
        hosts = {node.host for node in nodes}
    found += check_transport(nodes)
    if scheduler is None:
        found.append(Finding(FINE, "fold", _who_folds(config)))
    else:
        from bbflow.run.checks.dask import check_dask  # late: 'bbflow run' checks too, and Dask takes half a second

        found += check_dask(scheduler, certificate_of(contact) if contact else Path(), hosts)
    return found


def tell_before(
    config: Config, command: Sequence[str], contact: Path | None, scheduler: str | None, free: int | None = None
) -> None:
    """Print in the first lines of a run what is wrong or worth knowing; what it needs by itself must be there.

    Parameters
    ----------
    config, command, contact, scheduler
        The run's.
    free
        What was free (bytes) where its own nodes are before they took any; None if there are none yet.

    Raises
    ------
    CapacityError
        If the memory that the nodes would take isn't there.
    ConfigError
        If weights can't be read: nothing would be folded; or if the contact file isn't one.
    NodeError
        If there is no contact file, or a node doesn't answer.
    """
    if contact is not None:
        read_contact(contact)
    xml = xml_of(command)
    found = [*(check_xml(xml, config) if xml and not config.select else []), *check_select(config)]
    found += check_run(config, contact, scheduler, free)
    unfit = next((item for item in found if item.kind == WRONG and item.what in UNFIT), None)
    for item in found:
        is_said = item.what in ALWAYS_SAID or (item.kind != FINE and item.what not in CHECKED_ONLY)
        if item is not unfit and (is_said or item.kind == WRONG):
            tell(f"{item.what}: {item.text}")
    if unfit is not None:
        raise UNFIT[unfit.what](unfit.text)


def _who_folds(config: Config) -> str:
    workers = config.workers
    threads = "1 thread" if workers.threads == 1 else f"{workers.threads} threads"
    if workers.processes:
        processes = "1 Dask worker process" if workers.processes == 1 else f"{workers.processes} Dask worker processes"
        return f"{processes} of {threads}"
    if workers.dashboard is not None:
        return f"{threads} of a Dask worker in the analysis, for its dashboard"
    return f"{threads} of the analysis"


UNFIT: Mapping[str, type[BbflowError]] = {"memory": CapacityError, "nodes": NodeError, "weights": ConfigError}
"""What ends a run before it begins, as what."""
ALWAYS_SAID = ("memory", "fold", "states", "weights")
"""What the first lines of a run say, however it is."""
CHECKED_ONLY = ("time", "transport")
"""What only `bbflow check` notes: a run's stream tells the time in one of several ways, and its end says if in none;
its ranks may be on other hosts than the command."""


def xml_of(command: Sequence[str]) -> Path | None:
    """Return the XML that a simulation seems to read: one that its command names, else adios2.xml; None without one."""
    named = [Path(word.partition("=")[2] or word) for word in command if word.endswith(".xml")]
    return next((path for path in [*named, Path("adios2.xml")] if path.is_file()), None)


def _check_time(config: Config) -> list[Finding]:
    dated = config.dated_windows
    if config.time.by == "steps" and dated:
        return [Finding(WRONG, "time", f"time is steps, but the window {dated[0]} needs dates")]
    is_told = config.time.start is not None or config.time.by == "file"
    if dated and config.time.units is None and not is_told:
        name = config.time.attribute or config.time.variable
        either = config.time.by == "either"
        where = "attribute" if config.time.attribute else "variable or attribute" if either else "variable"
        others = ", or the name of its file" if either else ""
        text = f"each step must tell a date: the {where} {name}, a text or a number with {name}/units{others}"
        return [Finding(NOTE, "time", f"{text} (or set time: units, or time: start and interval)")]
    return []
