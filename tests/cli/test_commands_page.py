"""Every command is on its page; the site's build adds their options."""

import sys
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
sys.path.insert(0, str(DOCS))

import commands_page  # noqa: E402


def test_the_page_names_each_command_as_its_help_does():
    assert commands_page.overview() in (DOCS / "commands.md").read_text()


def test_the_site_gets_each_option_as_its_help_has_it():
    options = commands_page.options()
    assert "### bbflow run\n" in options
    assert "| `--take-over` | also if the stream belongs to an analysis with another output |" in options
