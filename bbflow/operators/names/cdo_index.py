"""CDO's operators by their own name here, by another spelling, or not, and other tools', as `docs/cdo.md` has them."""

from collections.abc import Iterable, Iterator, Mapping

from bbflow.operators.names.cdo import COUNTED, SPACES, STATISTICS, WINDOWS, WITH_CONSTANT
from bbflow.operators.names.elsewhere import ELSEWHERE, LACKING
from bbflow.operators.names.known import NAMES, ORIGINS
from bbflow.operators.names.other_tools import OTHER_TOOLS

IN_TIME = (*STATISTICS, "pctl")
IN_SPACE = tuple(name for name in STATISTICS if name != "avg")
TOGETHER: Mapping[tuple[str, ...], str] = {
    ("ydrun",): "over the n days around each date of all years; std, var and pctl: from one year to another",
    tuple(WITH_CONSTANT): "the value and a number, as expressions",
    (
        "eca_",
        "etccdi_",
    ): "[indices](windows.md#indices) as in CDO: `eca_…` over all steps, `etccdi_…` and `eca_gsl` of each year "
    "(`…mon`: month)",
}
"""Beginnings of names to what they are."""
PER_SPACE = {"fld": "of the field", "zon": "of each latitude", "mer": "of each longitude", "vert": "of all levels",
             "gridbox": "of boxes of points"}  # fmt: skip


def index() -> str:
    """Return all operators with what each is here, in Markdown."""
    suffixes = ", ".join(f"`{name}`" for name in IN_SPACE)
    parts = (
        (f"## By the same name\n\n`…` is any of {suffixes}, and over time also `avg` or `pctl`.\n\n", _by_name()),
        ("\n## By another spelling\n\nWrite instead:\n\n", _grouped(ELSEWHERE)),
        ("\n## Not here\n\n", _grouped(LACKING)),
        *((f"\n## {tool}\n\nWrite instead:\n\n", _grouped(names)) for tool, names in OTHER_TOOLS.items()),
    )
    return "".join(f"{head}{''.join(rows)}" for head, rows in parts)


def _by_name() -> Iterator[str]:
    words = {**{prefix: over for prefix, (over, _) in WINDOWS.items()},
             **{prefix: over for prefix, (over, _) in COUNTED.items()}}  # fmt: skip
    done: set[str] = set()
    for prefix, over in words.items():
        own = [f"{prefix}{suffix}" for suffix in IN_TIME if f"{prefix}{suffix}" in NAMES]
        done.update(own)
        yield _row(_shortened(own, prefix, IN_TIME), f"over {over}")
    for prefix, over in PER_SPACE.items():
        own = [name for name in SPACES if name.startswith(prefix) and name not in done]
        done.update(own)
        yield _row(_shortened(own, prefix, IN_SPACE), f"statistics {over}")
    rest = {name: item.summary for name, item in {**ORIGINS["CDO"], **ORIGINS["ETCCDI"]}.items() if name not in done}
    for prefixes, text in TOGETHER.items():
        own = [name for name in rest if name.startswith(prefixes)]
        rest = {name: text for name, text in rest.items() if name not in own}
        yield _row(own, text)
    yield from _grouped({name: text for name, text in rest.items() if name.islower()})


def _shortened(names: list[str], prefix: str, suffixes: Iterable[str]) -> list[str]:
    """All of the suffixes as one name with dots, if they are all there."""
    whole = [f"{prefix}{suffix}" for suffix in suffixes]
    return [f"{prefix}…", *(name for name in names if name not in whole)] if set(whole) <= set(names) else names


def _grouped(texts: Mapping[str, str]) -> Iterator[str]:
    groups: dict[str, list[str]] = {}
    for name, text in texts.items():
        groups.setdefault(text, []).append(name)
    for text, names in groups.items():
        yield _row(names, text)


def _row(names: Iterable[str], text: str) -> str:
    return f"- {', '.join(f'`{name}`' for name in names if name)}: {text}\n"
