"""Where the ADIOS2 engine is, and what a program's environment and XML need to select it."""

import os
from pathlib import Path

LIBRARY = "bbflow_adios2"
CONTACT_VARIABLE = "BBFLOW_CONTACT"
PLUGIN_PATH_VARIABLE = "ADIOS2_PLUGIN_PATH"


def library_path() -> Path:
    """Give the path of the engine's library.

    Raises
    ------
    FileNotFoundError
        If it was not built.
    """
    path = Path(__file__).parent / f"lib{LIBRARY}.so"
    if not path.exists():
        raise FileNotFoundError(
            f"the ADIOS2 engine {path} is missing: build it with 'pip install .' (needs g++: apt install g++)"
        )
    return path


def environment(contact: str | Path | None = None) -> dict[str, str]:
    """Give the environment variables with which an ADIOS2 program finds the engine and the BB nodes.

    Parameters
    ----------
    contact
        The contact file; None leaves it to the parameter Contact.
    """
    others = os.environ.get(PLUGIN_PATH_VARIABLE)
    folder = str(library_path().parent)
    variables = {PLUGIN_PATH_VARIABLE: f"{folder}:{others}" if others else folder}
    if contact is not None:
        variables[CONTACT_VARIABLE] = str(Path(contact).resolve())
    # ADIOS2 2.12 crashes at start where HOME is not set, as under some batch systems.
    return variables if "HOME" in os.environ else variables | {"HOME": "/"}


def engine_xml(io_name: str, stream: str | None = None, **parameters: str) -> str:
    """Give the XML that selects the engine for an IO.

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
