"""Every command and option is on its page."""

from pathlib import Path

import commands_page

PAGE = Path(__file__).parents[2] / "docs/commands.md"


def test_the_page_tells_each_option_as_its_help_does():
    told, known = PAGE.read_text().splitlines(), commands_page.page().splitlines()
    again = "renew it: PYTHONPATH=tests/cli python -m commands_page > docs/commands.md"
    assert [line for line in known if line not in told] == [], again
    assert [line for line in told if line not in known] == [], again
