"""Sizes of files whose replica says none: the file itself is asked, or the server that has it."""

import os
import threading
import time
from collections.abc import Mapping
from dataclasses import replace

from bbflow.errors import ConfigError
from bbflow.staging.probes import Answers, Probes
from bbflow_pegasus.credentials import SiteCredentials
from bbflow_pegasus.planning.facts import PlanFacts
from bbflow_pegasus.requests import SOURCES, TransferPlace
from bbflow_pegasus.urls import is_local, path_of, url_of

PATIENCE_S = 30.0
"""What hasn't been told by then stays unknown: a server that doesn't answer must not hold planning back."""


def with_sizes(facts: PlanFacts, environment: Mapping[str, str]) -> PlanFacts:
    """Return a workflow with the sizes that its sources tell.

    Parameters
    ----------
    facts
        The workflow; sizes that are known stay.
    environment
        Variables that name credentials.
    """
    unknown = {name: source.url for name, source in facts.sources.items() if source.size_bytes is None}
    sizes = {name: _on_this_host(url, name, environment) for name, url in unknown.items() if is_local(url)}
    elsewhere = {name: url_of(url, name) for name, url in unknown.items() if _protocol(url) in SOURCES[1:]}
    asked = _asked(set(elsewhere.values()), SiteCredentials(environment))
    sizes |= {name: asked.get(url) for name, url in elsewhere.items()}
    sources = {
        name: each if sizes.get(name) is None else replace(each, size_bytes=sizes[name])
        for name, each in facts.sources.items()
    }
    return replace(facts, sources=sources)


def _on_this_host(url: str, lfn: str, environment: Mapping[str, str]) -> int | None:
    try:
        return os.stat(path_of(url, environment, lfn)).st_size
    except (OSError, ConfigError):  # a variable may be set where the transfer runs only
        return None


def _asked(urls: set[str], credentials: SiteCredentials) -> dict[str, int | None]:
    """Ask servers, each by a few threads."""
    sizes: dict[str, int | None] = {}
    changed, until_s = threading.Condition(), time.monotonic() + PATIENCE_S

    def size(url: str) -> int:
        sources, known_as = credentials.open(_place(url))
        return sources.facts(known_as).size_bytes

    def together(urls: list[str]) -> dict[str, int]:
        opened = {url: credentials.open(_place(url)) for url in urls}
        sources, names = opened[urls[0]][0], {known_as: url for url, (_, known_as) in opened.items()}
        return {names[known_as]: size for known_as, size in sources.sizes(list(names)).items()}

    def answered(answers: Answers) -> None:
        with changed:
            sizes.update((url, size if isinstance(size, int) else None) for url, size in answers.items())
            changed.notify()

    probes = Probes(size, together, answered)
    probes.ask(sorted(urls))
    with changed:
        changed.wait_for(lambda: len(sizes) == len(urls), until_s - time.monotonic())
        probes.close()
        return dict(sizes)


def _place(url: str) -> TransferPlace:
    return TransferPlace(url, "", _protocol(url))


def _protocol(url: str) -> str:
    return url.partition(":")[0]
