"""The page of a scenario's keys: ``PYTHONPATH=tests/simulate python -m scenarios_page > docs/scenarios.md``.

What a key means is told once: in the record whose field it is.
"""

import ast
import dataclasses
import inspect
import itertools

from bbflow.simulate import scenario

HEAD = """# The keys of a scenario

For each kind of [scenario](simulate.md) its sections, and the keys of each, with defaults in brackets. Sizes and rates
may have units (`32GiB`, `10 Gb/s`); a number without one is in what the key's name ends with: `_bytes`, `_bytes_per_s`,
`_s`, `_per_h`.
"""


def page():
    """Return the page."""
    kinds = [f"- `kind: {kind}`: " + ", ".join(map(_linked, own)) for kind, own in scenario._SECTIONS.items()]
    sections = {name: cls for own in scenario._SECTIONS.values() for name, cls in own.items()}
    return "\n".join([HEAD, *kinds, "", *(line for name, cls in sections.items() for line in _section(name, cls))])


def _linked(name):
    return f"[{name}](#{name})"


def _section(name, cls):
    told = _docstrings(cls)
    yield f"## {name}\n\n{_plain(inspect.getdoc(cls).partition('Parameters')[0])}\n"
    for each in dataclasses.fields(cls):
        default = (
            ""
            if each.default in (dataclasses.MISSING, "")
            else f" ({each.default:g})"
            if isinstance(each.default, float)
            else f" ({each.default})"
        )
        yield f"- `{each.name}`{default}: {_plain(told[each.name])}"
    yield ""


def _docstrings(cls):
    """What stands below each field."""
    body = ast.parse(inspect.cleandoc(inspect.getsource(cls))).body[0].body
    return {
        field.target.id: below.value.value
        for field, below in itertools.pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr)
    }


def _plain(text):
    return " ".join(text.replace("``", "`").split())


if __name__ == "__main__":
    print(page(), end="")
