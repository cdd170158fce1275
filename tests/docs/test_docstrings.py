"""What docstrings and comments refer to is there: a name that a class has lost would send who reads on nowhere."""

import ast
import re
from collections import defaultdict
from pathlib import Path

from structure import PACKAGES, tracked

ROOT = Path(__file__).parents[2]

REFERENCE = re.compile(r"(?<!`)`(?:[\w.]+\.)?([A-Z]\w+)\.(\w+)(?:\(\))?`(?!`)")


def test_members_that_docstrings_and_comments_name_are_there():
    texts, members, bases = {}, defaultdict(set), defaultdict(set)
    for path in tracked(ROOT, ".py"):
        if any(path.is_relative_to(folder) for folder in PACKAGES.values()):
            texts[path] = (ROOT / path).read_text()
            for kind in filter(lambda node: isinstance(node, ast.ClassDef), ast.walk(ast.parse(texts[path]))):
                bases[kind.name] |= {ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in kind.bases}
                members[kind.name] |= set(_names(kind))

    def has(kind, name):
        return name in members[kind] or any(has(base, name) for base in bases.get(kind, ()))

    named = {(str(path), *own) for path, text in texts.items() for own in REFERENCE.findall(text) if own[0] in bases}
    assert len(named) > 50
    assert sorted(each for each in named if not has(*each[1:])) == []


def _names(kind):
    """Yield what a class defines, its fields and what its methods set among it."""
    for node in ast.walk(kind):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.id if isinstance(node, ast.Name) else node.attr
