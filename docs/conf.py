"""How `make docs` makes the site; its source is the whole repository, so that links between folders hold."""

import os
import sys
from importlib.metadata import version as version_of
from pathlib import Path

project = "bbflow"
author = "the bbflow developers"
version = release = version_of("bbflow")

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
]
root_doc = "docs/index"
include_patterns = [
    "docs/**",
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "adios2-engine/FORMAT.md",
    "bbflow/files/FORMAT.md",
]
exclude_patterns = [".*", "build", "*-out"]

# The pages are read on their own too: their links are files and headings, as a forge shows them.
myst_heading_anchors = 4
# "off" in the tests' quick build
nb_execution_mode = os.environ.get("BBFLOW_DOCS_NOTEBOOKS", "cache")
nb_execution_cache_path = "build/notebooks"
nb_execution_timeout = 300
nb_execution_raise_on_error = True

autodoc_typehints = "none"
autosummary_generate = True
numpydoc_show_class_members = False
autodoc_default_options = {"members": True}

html_theme = "pydata_sphinx_theme"
html_title = "bbflow"
html_theme_options = {"show_toc_level": 2, "navigation_depth": 2}

sys.path.insert(0, str(Path(__file__).parent))


def setup(app):
    """Write what pages include: options of commands, keys of scenarios, and CDO's operators."""
    from commands_page import options

    from bbflow.operators.names.cdo_index import index
    from bbflow.simulate.keys import keys

    build = Path(app.srcdir) / "build"
    build.mkdir(exist_ok=True)
    for page, text in (("commands", options()), ("keys", keys()), ("cdo", index())):
        (build / f"{page}.md").write_text(text)
