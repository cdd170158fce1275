"""What an ADIOS2 XML selects for its IOs, and what is wrong with it where it is to select bbflow."""

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from bbflow.errors import ConfigError, nearest
from bbflow_adios2 import LIBRARY

PARAMETERS = (
    "Stream",
    "Contact",
    "Rank",
    "Writers",
    "Groups",
    "RanksPerNode",
    "Transport",
    "FabricProvider",
    "FabricChecks",
    "FabricGpu",
    "GpuStream",
    "QueueFullPolicy",
    "SpillDirectory",
    "OpenTimeoutSecs",
    "NodeLossTimeoutSecs",
    "Pin",
    "KeepOpen",
    "ArrayOrder",
    "PluginName",
    "PluginLibrary",
    "verbose",
)
"""What the engine knows; names don't depend on case."""
SLIP = 0.85
"""Names at least so much alike are one with a slip of the pen; others are other engines', and count for nothing."""
FEWEST_LETTERS = 4
"""How many tell a name that is cut short."""
NAME = "bbflow"


@dataclass(frozen=True, slots=True)
class Selection:
    """The engine that an XML selects for one IO."""

    io: str
    """Name of the IO."""
    engine: str
    """The engine's type; empty if there is none."""
    parameters: Mapping[str, str]
    """As they are written."""

    def get(self, name: str) -> str:
        """Return a parameter, whatever the case of its name; empty if it isn't there."""
        return next((value for key, value in self.parameters.items() if key.lower() == name.lower()), "")

    @property
    def is_meant(self) -> bool:
        """Whether it is to be bbflow."""
        words = (self.engine, self.get("PluginName"), self.get("PluginLibrary"))
        return any(NAME in word.lower() for word in words)

    @property
    def stream(self) -> str:
        """Name of the stream, with braces for what differs between ranks."""
        return self.get("Stream") or self.io


def read_selections(path: Path) -> list[Selection]:
    """Read an ADIOS2 XML.

    Raises
    ------
    ConfigError
        If it can't be read, or is none.
    """
    try:
        root = ElementTree.parse(path).getroot()
    except OSError as error:
        raise ConfigError(f"can't read {path}: {error.strerror}") from None
    except ElementTree.ParseError as error:
        raise ConfigError(f"{path} is not valid XML: {error}") from None
    if root.tag != "adios-config":
        raise ConfigError(f"{path} isn't an XML of ADIOS2: it begins with <{root.tag}>, not with <adios-config>")
    return [_selection(io) for io in root.iter("io")]


def _selection(io: ElementTree.Element) -> Selection:
    engine = io.find("engine")
    if engine is None:
        return Selection(io.get("name", ""), "", {})
    parameters = {item.get("key", ""): item.get("value", "") for item in engine.iter("parameter")}
    return Selection(io.get("name", ""), engine.get("type", ""), parameters)


def problems(selections: Sequence[Selection], stream: str) -> list[str]:
    """Return what keeps a program with such an XML from landing a stream.

    Parameters
    ----------
    selections
        What the XML selects.
    stream
        Name of the stream in the analysis' configuration.
    """
    meant = [item for item in selections if item.is_meant]
    if not meant:
        others = ", ".join(f"{item.io} has {item.engine or 'none'}" for item in selections) or "it has no IO"
        return [f'it selects bbflow for no IO ({others}): write <engine type="Plugin"> with PluginName {NAME}']
    found = [problem for item in meant for problem in _problems_of(item)]
    streams = [item.stream for item in meant]
    if not any(_fits(pattern, stream) for pattern in streams):
        found.append(
            f"its streams are {', '.join(streams)}, but the configuration's is {stream!r}; "
            f"{nearest(stream, streams)} (parameter Stream, else the IO's name)"
        )
    return found


def _problems_of(item: Selection) -> list[str]:
    where = f"io {item.io}"
    found = []
    if item.engine.lower() != "plugin":
        found.append(f"{where}: the engine's type is {item.engine!r}, but must be 'Plugin'")
    for name, wanted in (("PluginName", NAME), ("PluginLibrary", LIBRARY)):
        given = item.get(name)
        if given != wanted and not (name == "PluginLibrary" and Path(given).name == f"lib{LIBRARY}.so"):
            found.append(f"{where}: the parameter {name} is {given!r}, but must be {wanted!r}")
    found += [f"{where}: {text}" for text in unknown_parameters(item.parameters)]
    if item.get("QueueFullPolicy").lower() == "spill" and not item.get("SpillDirectory"):
        found.append(f"{where}: QueueFullPolicy Spill needs a SpillDirectory")
    return found


def unknown_parameters(names: Iterable[str]) -> list[str]:
    """Return of each name that is a parameter of the engine with a slip which one may be meant."""
    unknown = ((name, _meant(name)) for name in names if name.lower() not in _known())
    return [f"unknown parameter {name}: did you mean {meant}?" for name, meant in unknown if meant]


def _known() -> set[str]:
    return {name.lower() for name in PARAMETERS}


def _meant(name: str) -> str:
    """Return the name that is misspelt or cut short; empty if it is another engine's."""
    # A word more is no slip: SST has a DataTransport.
    near = {known for known in _known() if 3 * abs(len(known) - len(name)) <= len(known)}
    close = difflib.get_close_matches(name.lower(), near, n=1, cutoff=SLIP)
    begun = name.lower() if len(name) >= FEWEST_LETTERS else None
    cut = [known for known in _known() if begun and known.startswith(begun)]
    return next((known for known in PARAMETERS if known.lower() in (*close, *cut)), "")


def _fits(pattern: str, stream: str) -> bool:
    parts = re.split(r"\{(?:rank|group|open)\}", pattern)
    return re.fullmatch(r"\d+".join(map(re.escape, parts)), stream) is not None
