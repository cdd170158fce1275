"""Where the ADIOS2 engine is, and what a program's environment and XML need to select it."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

LIBRARY = "bbflow_adios2"
PRELOAD = "bbflow_preload"
CONTACT_VARIABLE = "BBFLOW_CONTACT"
OPENS_VARIABLE = "BBFLOW_OPENS"
"""Names a file, if it is there, that gets a line for each Open of the program."""
PLUGIN_PATH_VARIABLE = "ADIOS2_PLUGIN_PATH"
PRELOAD_VARIABLE = "LD_PRELOAD"
SELECT_VARIABLE = "BBFLOW_SELECT"
SELECTED = {"PluginName": "bbflow", "PluginLibrary": LIBRARY, "KeepOpen": "yes"}
"""Parameters of an IO that a rule selects, unless the rule says otherwise."""


def library_path() -> Path:
    """Return the path of the engine's library.

    Raises
    ------
    FileNotFoundError
        If it was not built.
    """
    return _built(LIBRARY, "ADIOS2 engine")


def preload_path() -> Path:
    """Return the path of the library for ``LD_PRELOAD`` that selects the engine for a program.

    Raises
    ------
    FileNotFoundError
        If it was not built.
    """
    return _built(PRELOAD, "library that selects the engine")


def _built(name: str, what: str) -> Path:
    path = Path(__file__).parent / f"lib{name}.so"
    if not path.exists():
        raise FileNotFoundError(f"the {what}, {path}, is missing: build it with 'pip install .' (apt install g++)")
    return path


def environment(contact: str | Path | None = None, select: Sequence[Mapping[str, str]] = ()) -> dict[str, str]:
    """Return the environment variables with which an ADIOS2 program finds the engine and the BB nodes.

    Parameters
    ----------
    contact
        The contact file; None leaves it to the parameter Contact.
    select
        Rules that say which IOs land, the first that fits counts: patterns (fnmatch) ``io`` for the IO's name and
        ``file`` for the file's, and parameters of the engine, such as ``Stream``. None leaves it to the program's XML.

    Raises
    ------
    ValueError
        If there are rules, and the path of the library that obeys them has a blank or a colon.
    """
    others = os.environ.get(PLUGIN_PATH_VARIABLE)
    folder = str(library_path().parent)
    variables = {PLUGIN_PATH_VARIABLE: f"{folder}:{others}" if others else folder, **_preloading(bool(select))}
    if select:
        variables[SELECT_VARIABLE] = "|".join(_rule(SELECTED | dict(rule)) for rule in select)
    if contact is not None:
        variables[CONTACT_VARIABLE] = str(Path(contact).resolve())
    # ADIOS2 2.12 crashes at start where HOME is not set, as under some batch systems.
    return variables if "HOME" in os.environ else variables | {"HOME": "/"}


def _preloading(is_needed: bool) -> dict[str, str]:
    """Make each process load the library, after those that others have chosen."""
    path = str(preload_path())
    others = os.environ.get(PRELOAD_VARIABLE, "")
    # To ld.so(8) both end a name, and there is no way to quote them.
    if re.search(r"[\s:]", path):
        if is_needed:
            raise ValueError(f"{path} can't be preloaded: its path must have no blank and no colon; select by XML")
        return {}
    words = [word for word in re.split(r"[\s:]+", others) if word and word != path]
    return {PRELOAD_VARIABLE: ":".join([*words, path])}


def _rule(fields: Mapping[str, str]) -> str:
    """Write a rule as FORMAT.md has it."""
    return ";".join(f"{key}={_quoted(value)}" for key, value in fields.items())


def _quoted(text: str) -> str:
    signs = (chr(byte) for byte in text.encode())
    return "".join(sign if " " <= sign <= "~" and sign not in "%;|" else f"%{ord(sign):02X}" for sign in signs)


def engine_xml(io_name: str, stream: str | None = None, **parameters: str) -> str:
    """Return the XML that selects the engine for an IO.

    Parameters
    ----------
    io_name
        Name of the IO, as in the program's ``DeclareIO``.
    stream
        Name of the stream; the IO's by default.
    **parameters
        Further parameters of the engine, such as ``QueueFullPolicy="Discard"``.
    """
    from xml.sax.saxutils import quoteattr  # late: it brings all of urllib, which a run has no time for

    given = {"PluginName": "bbflow", "PluginLibrary": LIBRARY, "Stream": stream or io_name} | parameters
    lines = [
        f"      <parameter key={quoteattr(key)} value={quoteattr(value)}/>" for key, value in given.items()
    ]  # fmt: skip
    opening = ["<adios-config>", f"  <io name={quoteattr(io_name)}>", '    <engine type="Plugin">']
    return "\n".join([*opening, *lines, "    </engine>", "  </io>", "</adios-config>", ""])
