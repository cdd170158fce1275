"""Every key of a scenario is on its page."""

from pathlib import Path

import scenarios_page

PAGE = Path(__file__).parents[2] / "docs/scenarios.md"


def test_the_page_tells_each_key_as_its_record_does():
    told, known = PAGE.read_text().splitlines(), scenarios_page.page().splitlines()
    again = "renew it: PYTHONPATH=tests/simulate python -m scenarios_page > docs/scenarios.md"
    assert [line for line in known if line not in told] == [], again
    assert [line for line in told if line not in known] == [], again
