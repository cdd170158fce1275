"""Every command is on the site, with its options."""

import re
import sys
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
sys.path.insert(0, str(DOCS))

import commands_page  # noqa: E402


def test_the_site_gets_each_command_and_option_as_its_help_has_it():
    options = commands_page.options()
    assert "### bbflow run\n\nRun a simulation and fold what it writes while it runs.\n" in options
    assert "| `--take-over` | also if the stream belongs to an analysis with another output |" in options


COMMAND = re.compile(r"\bbbflow(?:-pegasus)? [a-z]+ [^`\n|]*")
OPTION = re.compile(r"(?<=\s)--[a-z][a-z-]*")
PASSED_ON = {"--sites", "--staging-site", "--output-sites"}
"""Those of pegasus-plan, which 'bbflow-pegasus plan' takes."""


def test_options_in_the_command_lines_of_all_pages_are_there():
    texts = [page.read_text().replace("\\\n", " ") for page in (DOCS.parent / "README.md", *DOCS.glob("*.md"))]
    lines = [command.partition(" -- ")[0] for text in texts for command in COMMAND.findall(text)]
    named = {option for line in lines for option in OPTION.findall(line)}
    known = set(re.findall(r"`(--[a-z-]+)", commands_page.options()))
    assert len(named) > 50
    assert sorted(named - known - PASSED_ON) == []
