"""What others have published, as the simulator foretells it: `published.yml`, each figure beside its own."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

import yaml

from bbflow.cli.scenarios import find
from bbflow.simulate.runs import run_scenario
from bbflow.simulate.scenario import load_scenario, varied
from benchmarks.rows import Row

PUBLISHED = Path(__file__).with_name("published.yml")
WITHIN = (0.15, 0.3)
"""Shares by which a figure may be off."""


@dataclass(frozen=True, slots=True)
class Foretold:
    """One figure."""

    what: str
    """Of which paper, and what."""
    published: float
    """What the paper has: a ratio of times, a share, or seconds."""
    found: float
    """What the simulator gives."""
    bound: str
    """``at most`` or ``at least`` if the paper gives a limit only, else empty."""
    fitted: bool
    """Whether the scenario was made to give it."""

    @property
    def miss(self) -> float:
        """By what share of the published figure it is off; 0 on the right side of a bound."""
        off = self.found / self.published - 1
        if (self.bound == "at most" and off <= 0) or (self.bound == "at least" and off >= 0):
            return 0.0
        return abs(off)


def foretell(papers: list[dict[str, Any]]) -> Iterator[Foretold]:
    """Simulate what is wanted of each paper, and yield its figures.

    Parameters
    ----------
    papers
        As `published.yml` has them.
    """
    for paper in papers:
        for figure in paper["figures"]:
            yield Foretold(
                f"{paper['paper']}: {figure['what']}",
                float(figure["published"]),
                _found(paper, figure),
                figure.get("bound", ""),
                bool(figure.get("fitted")),
            )


def _found(paper: Mapping[str, Any], figure: Mapping[str, Any]) -> float:
    of = _times(paper, figure["of"])
    if "less" in figure:
        of = [own - less for own, less in zip(of, _times(paper, figure["less"]), strict=True)]
    to = _times(paper, figure["to"]) if "to" in figure else [1.0] * len(of)
    return fmean(own / other for own, other in zip(of, to, strict=True))


def _times(paper: Mapping[str, Any], term: Mapping[str, Any]) -> list[float]:
    """Return a figure of one way for each of the values that are gone through."""
    given = {key: str(value) for key, value in {**paper.get("set", {}), **term.get("set", {})}.items()}
    ((key, values),) = paper.get("over", {None: [None]}).items()
    cases = [given] if key is None or key in given else [given | {key: str(value)} for value in values]
    name = term.get("figure", "total_s")
    return [_figures(paper["scenario"], term["way"], tuple(sorted(case.items())))[name] for case in cases]


@cache
def _figures(name: str, way: str, case: tuple[tuple[str, str], ...]) -> Mapping[str, float]:
    scenario = load_scenario(find(name))
    for key, value in case:
        scenario = varied(scenario, key, value)
    (result,) = run_scenario(scenario, ways=[way])
    return result.figures


def measure(*, quick: bool) -> list[Row]:
    """Foretell all; the ratio is to the published figure. Blind ones are counted at the end."""
    found = list(foretell(yaml.safe_load(PUBLISHED.read_text())))
    rows = [
        Row(f"{item.what}{' (fitted)' if item.fitted else ''}: published {_bound(item)}{item.published:g}", item.found,
            "", item.found / item.published)
        for item in found
    ]  # fmt: skip
    blind = [item for item in found if not item.fitted]
    for within in WITHIN:
        count = sum(item.miss <= within for item in blind)
        rows.append(Row(f"of {len(blind)} blind figures within {within:.0%}", count, "", count / len(blind)))
    return rows


def _bound(item: Foretold) -> str:
    return f"{item.bound} " if item.bound else ""
