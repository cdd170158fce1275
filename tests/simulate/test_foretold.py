"""What others have published beside what is foretold: each figure is computed, and counted on the right side."""

import pytest
import yaml

from benchmarks.foretold import PUBLISHED, Foretold, foretell

PAPERS = yaml.safe_load(PUBLISHED.read_text())


@pytest.mark.parametrize(
    ("found", "bound", "miss"),
    [(0.9, "", 0.1), (1.1, "", 0.1), (0.5, "at most", 0.0), (1.2, "at most", 0.2), (2.0, "at least", 0.0)],
)
def test_a_figure_is_missed_by_its_share_and_a_bound_on_its_wrong_side_only(found, bound, miss):
    assert Foretold("a figure", 1.0, found, bound, fitted=False).miss == pytest.approx(miss)


def test_a_share_of_a_time_is_what_the_rates_say():
    # Four nodes of 500 MB/s read 4 x 8 GB at 45 MB/s each, through a file system that gives them that.
    terms = {"way": "bb+analysis", "set": {"simulation.nodes": 8, "analysis.bytes_per_s": "1000 TB/s"}}
    less = {"way": "bb+analysis", "figure": "simulation_s", "set": {"simulation.nodes": 8}}
    figure = {"what": "reading", "published": 1.0, "of": terms, "less": less}
    (found,) = foretell([{"paper": "none", "scenario": "abb-8", "figures": [figure]}])
    assert found.found >= 8 * 16 * 500e6 / 45e6
    assert not found.fitted


def test_every_published_figure_says_what_foretells_it():
    for paper in PAPERS:
        assert paper["source"]
        assert paper["scenario"]
        for figure in paper["figures"]:
            assert figure["published"] > 0
            assert figure.get("bound", "at most") in ("at most", "at least")
            assert figure["of"]["way"]
