"""How the code is built, in figures: ``python -m tests.structure [CHECKOUT …]``, or ``make structure``.

For each checkout: how long files and functions are, how many lines are comments, which parts import which, whether any
of them import each other, and which public classes share a name.
"""

import ast
import statistics
import subprocess
import sys
import tokenize
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

PACKAGES = {
    "bbflow": "bbflow",
    "bbflow_adios2": "adios2-engine/bbflow_adios2",
    "bbflow_parsl": "parsl-executor/bbflow_parsl",
    "bbflow_pegasus": "pegasus-plugin/bbflow_pegasus",
    "bbflow_slurm": "slurm-plugin/bbflow_slurm",
    "bbflow_snakemake": "snakemake-plugin/bbflow_snakemake",
    "bbflow_spark": "spark-plugin/bbflow_spark",
    "bbflow_workflows": "workflows",
}
"""What users install: package to folder."""
LONG_FILE, LONG_FUNCTION = 300, 40


@dataclass
class Structure:
    """What one checkout looks like."""

    files: dict[str, int] = field(default_factory=dict)
    """Lines of each file of the packages."""
    functions: dict[str, int] = field(default_factory=dict)
    """Lines of each function, without its docstring."""
    classes: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Where each public class is, by its name."""
    imports: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Which modules each module imports."""
    foreign_writes: int = 0
    """Assignments to attributes of objects other than a method's own, or to what these hold."""
    documented: list[bool] = field(default_factory=list)
    """For each public class and function whether it has a docstring."""
    tests: dict[str, int] = field(default_factory=dict)
    """Lines of each file of tests."""

    def shared_names(self) -> dict[str, list[str]]:
        """Return the names that several public classes have."""
        return {name: places for name, places in sorted(self.classes.items()) if len(places) > 1}


def tracked(root, suffix):
    """Files that git knows in a checkout."""
    said = subprocess.run(["git", "ls-files"], cwd=root, check=True, capture_output=True, text=True).stdout
    return [Path(name) for name in said.splitlines() if name.endswith(suffix) and (root / name).is_file()]


def structure_of(root):
    """Measure a checkout."""
    found = Structure()
    for path in tracked(root, ".py"):
        package = next((name for name, folder in PACKAGES.items() if path.is_relative_to(folder)), None)
        text = (root / path).read_text()
        if "tests" in path.parts:
            found.tests[str(path)] = text.count("\n")
        elif package is not None:
            module = ".".join([package, *path.relative_to(PACKAGES[package]).with_suffix("").parts])
            measure(found, str(path), module.removesuffix(".__init__"), text)
    return found


def measure(found, path, module, text):
    """Add one file."""
    found.files[path] = text.count("\n")
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            own = first.end_lineno - first.lineno + 1 if ast.get_docstring(node, clean=False) else 0
            found.functions[f"{path}:{node.lineno} {node.name}"] = node.end_lineno - node.lineno + 1 - own
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("bbflow"):
            found.imports[module] |= {f"{node.module}.{alias.name}" for alias in node.names}
        found.foreign_writes += sum(map(_is_of_another, _targets(node)))
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            found.documented.append(ast.get_docstring(node, clean=False) is not None)
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            found.classes[node.name].append(f"{module}")


def comment_lines(path):
    """Count the lines of a file with a comment of their own or behind code."""
    with path.open() as file:
        return sum(token.type == tokenize.COMMENT for token in tokenize.generate_tokens(file.readline))


def _targets(node):
    """Yield what a statement assigns to, or deletes."""
    if isinstance(node, ast.Assign | ast.Delete):
        waiting = list(node.targets)
    else:
        waiting = [node.target] if isinstance(node, ast.AugAssign | ast.AnnAssign) else []
    while waiting:
        target = waiting.pop()
        if isinstance(target, ast.Tuple | ast.List):
            waiting += target.elts
        else:
            yield target


def _is_of_another(target):
    """Whether a target is an attribute of another object than `self`, or an item of one."""
    place = target.value if isinstance(target, ast.Subscript) else target
    return isinstance(place, ast.Attribute) and not (isinstance(place.value, ast.Name) and place.value.id == "self")


def part_of(module):
    """The part that a module belongs to."""
    return ".".join(module.split(".")[:2])


def import_graph(found):
    """Return for each module those that it imports, also inside functions."""
    modules = set(found.imports) | {module for places in found.classes.values() for module in places}
    return {
        module: {name if name in modules else name.rpartition(".")[0] for name in names} & modules - {module}
        for module, names in found.imports.items()
    }


def longest_chain(found):
    """Return the modules of the longest chain of imports, in which none stands twice."""
    graph, chains = import_graph(found) | {"bbflow": set()}, {}  # what it names comes late, with the first use

    def chain(module, above):
        if module not in chains:
            below = (chain(name, above | {module}) for name in sorted(graph.get(module, ())) if name not in above)
            chains[module] = [module, *max(below, key=len, default=[])]
        return chains[module]

    return max((chain(module, frozenset({module})) for module in sorted(graph)), key=len)


def rings(found):
    """Return sets of modules that import each other, directly or over others."""
    graph = import_graph(found)
    reach = {module: _reachable(graph, module) for module in graph}
    found_rings = {frozenset(other for other in reach[module] if module in reach.get(other, ())) for module in graph}
    return sorted(filter(None, found_rings), key=sorted)


def _reachable(graph, start):
    seen, todo = set(), list(graph.get(start, ()))
    while todo:
        module = todo.pop()
        if module not in seen:
            seen.add(module)
            todo += graph.get(module, ())
    return seen


def figures(root, found):
    """Return what is compared: one line each."""
    lines, lengths = sum(found.files.values()), sorted(found.functions.values())
    long_files = [path for path, length in found.files.items() if length > LONG_FILE]
    long_functions = [name for name, length in found.functions.items() if length > LONG_FUNCTION]
    comments = sum(comment_lines(root / path) for path in found.files)
    edges = {(part_of(a), part_of(b)) for a, names in found.imports.items() for b in names if part_of(a) != part_of(b)}
    return {
        "files": len(found.files),
        "lines": lines,
        "median lines of a file": int(statistics.median(found.files.values())),
        f"files above {LONG_FILE} lines": len(long_files),
        "functions": len(lengths),
        "median lines of a function": int(statistics.median(lengths)),
        f"functions above {LONG_FUNCTION} lines": len(long_functions),
        "assignments to other objects' attributes": found.foreign_writes,
        "lines with a comment": f"{comments / lines:.1%}",
        "public names with a docstring": f"{statistics.mean(found.documented):.1%}",
        "imports between parts": len(edges),
        "rings of modules that import each other": len(rings(found)),
        "modules of the longest chain of imports": len(longest_chain(found)),
        "names that public classes share": len(found.shared_names()),
        "files of tests": len(found.tests),
        "lines of tests": sum(found.tests.values()),
    }


def main(roots):
    """Print the figures of each checkout, and what stands out in the last one."""
    found = [structure_of(root) for root in roots]
    columns = [figures(*both) for both in zip(roots, found, strict=True)]
    print("| |" + "".join(f" {root.resolve().name} |" for root in roots))
    print("| --- |" + " --- |" * len(roots))
    for name in columns[0]:
        print(f"| {name} |" + "".join(f" {column[name]} |" for column in columns))
    last = found[-1]
    for path, length in sorted(last.files.items(), key=lambda item: -item[1]):
        if length > LONG_FILE:
            print(f"{length:5} lines in {path}")
    for name, length in sorted(last.functions.items(), key=lambda item: -item[1]):
        if length > LONG_FUNCTION:
            print(f"{length:5} lines in {name}")
    for ring in rings(last):
        print("import each other:", ", ".join(sorted(ring)))
    for name, places in last.shared_names().items():
        print(f"{name} in {', '.join(places)}")


if __name__ == "__main__":
    main([Path(word) for word in sys.argv[1:]] or [Path(__file__).parents[1]])
