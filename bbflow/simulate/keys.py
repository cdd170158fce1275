"""The keys of scenarios, in Markdown: what a key means is told once, in the record whose field it is."""

import ast
import dataclasses
import inspect
import itertools
from collections.abc import Iterator
from typing import Any

from bbflow.simulate.scenario import SECTIONS


def keys() -> str:
    """Return which sections each kind of scenario has, and the keys of each with their defaults in brackets."""
    kinds = [f"- `kind: {kind}`: {', '.join(own)}" for kind, own in SECTIONS.items()]
    sections = {name: cls for own in SECTIONS.values() for name, cls in own.items()}
    return "\n".join([*kinds, "", *(line for name, cls in sections.items() for line in _section(name, cls))])


def _section(name: str, cls: type[Any]) -> Iterator[str]:
    told = _docstrings(cls)
    yield f"### {name}\n\n{_plain((inspect.getdoc(cls) or '').partition('Parameters')[0])}\n"
    for each in dataclasses.fields(cls):
        default = "" if each.default in (dataclasses.MISSING, "") else f" ({_written(each.default)})"
        yield f"- `{each.name}`{default}: {_plain(told[each.name])}"
    yield ""


def _written(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _docstrings(cls: type[Any]) -> dict[str, str]:
    """Return what stands below each field."""
    (record,) = ast.parse(inspect.cleandoc(inspect.getsource(cls))).body
    assert isinstance(record, ast.ClassDef)
    return {
        field.target.id: below.value.value
        for field, below in itertools.pairwise(record.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) and isinstance(below.value.value, str)
    }


def _plain(text: str) -> str:
    return " ".join(text.replace("``", "`").split())
