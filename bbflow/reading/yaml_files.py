"""The one reader of YAML: all that people write, in YAML 1.2's core schema, and no key twice."""

import json
import re
from collections import deque
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from bbflow.errors import ConfigError

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_WORDS = {
    "null": (r"~|null|Null|NULL|", "~nN"),
    "bool": (r"true|True|TRUE|false|False|FALSE", "tTfF"),
    "int": (r"[-+]?(?:0|[1-9][0-9]*)|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    "float": (
        r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?[eE][-+]?[0-9]+|[0-9]+\.[0-9]*)|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        "-+0123456789.",
    ),
    "merge": (r"<<", "<"),
}
"""What plain words are no text, and how they begin (YAML 1.2, section 10.3.2); with 1.1's merging of maps. A number
doesn't begin with zeros: who writes 007 means a name."""


TOLD_BETTER = 1 << 14
"""Characters up to which the parser in Python tells an error: with brackets in each other it takes their square."""


class _Reader(_Loader):  # type: ignore[misc]  # either of two
    """Builds maps whose keys are texts, as JSON's are: a variable may be called 1, NO or true."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012  # PyYAML's own, which has those of YAML 1.1

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        """Make a map, in which no key comes twice; one that is merged into it may have it too."""
        seen: dict[str, Any] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "a key must be one text", key.start_mark)
            if key.tag == "tag:yaml.org,2002:merge":
                continue
            key.tag = "tag:yaml.org,2002:str"
            first = seen.setdefault(key.value, key)
            if first is not key:
                lines = f"lines {first.start_mark.line + 1} and {key.start_mark.line + 1}"
                raise yaml.constructor.ConstructorError(None, None, f"the key {key.value!r} is given twice, in {lines}")
        return super().construct_mapping(node, deep)  # type: ignore[no-any-return]

    def construct_yaml_int(self, node: Any) -> int:
        """Read a whole number."""
        return int(node.value, 0)


for _name, (_pattern, _first) in _WORDS.items():
    _tag, _starts = f"tag:yaml.org,2002:{_name}", [*_first, *([""] if _name == "null" else [])]
    _Reader.add_implicit_resolver(_tag, re.compile(f"^(?:{_pattern})$"), _starts)
_Reader.add_constructor("tag:yaml.org,2002:int", _Reader.construct_yaml_int)


def parse_yaml(text: str) -> Any:
    """Read YAML.

    Raises
    ------
    ConfigError
        If it is none, or a map has a key twice; the message names the lines.
    """
    try:
        return yaml.load(text, _Reader)
    except (yaml.YAMLError, ValueError) as error:
        said = " ".join(str(_told_better(text, error)).replace(' in "<unicode string>",', " in").split())
        raise ConfigError(f"is not valid YAML: {said}") from None


def _told_better(text: str, error: Exception) -> Exception:
    """Return what the parser in Python says of an error in a text that isn't long: where it begins, too."""
    if len(text) > TOLD_BETTER:
        return error
    try:
        deque(yaml.parse(text, yaml.SafeLoader), 0)
    except yaml.YAMLError as better:
        return better
    return error


def _parse_json(text: str) -> Any:
    """Read YAML that is JSON: a plan of 100,000 tasks takes a YAML parser a minute and more."""
    twice: list[bool] = []

    def read(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        twice.append(len(found) < len(pairs))
        return found

    content = json.loads(text, object_pairs_hook=read)
    return parse_yaml(text) if any(twice) else content  # which says where


def read_yaml(path: Path) -> Any:
    """Read a file of YAML, or of JSON if its name says so.

    Raises
    ------
    ConfigError
        If it can't be read, or as for `parse_yaml`; the message names the file.
    """
    try:
        text = path.read_text("utf-8")
        return _parse_json(text) if path.suffix == ".json" else parse_yaml(text)
    except OSError as error:
        raise ConfigError(f"can't read {path}: {error.strerror}") from None
    except RecursionError:
        raise ConfigError(f"{path} has too many brackets in each other") from None
    except ValueError as error:  # bytes that are no UTF-8, or text that isn't JSON
        raise ConfigError(f"{path} is not valid {'JSON' if path.suffix == '.json' else 'YAML'}: {error}") from None
    except ConfigError as error:
        raise ConfigError(f"{path} {error}") from None
