"""What a master's requests must and may hold (FORMAT.md): all of it is looked at before any is done."""

from collections.abc import Callable
from typing import Any

from bbflow.errors import ProtocolError
from bbflow.records import Message

Kind = Callable[[Any], bool]


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def whole(value: Any) -> bool:
    """Whether it is a whole number."""
    return type(value) is int


def number(value: Any) -> bool:
    """Whether it is a number."""
    return type(value) in (int, float)


def flag(value: Any) -> bool:
    """Whether it is yes or no, also as a number."""
    return isinstance(value, int)


def text(value: Any) -> bool:
    """Whether it is a text."""
    return isinstance(value, str)


def numbers(value: Any) -> bool:
    """Whether it is a list of whole numbers."""
    return _is_list(value) and all(map(whole, value))


def rows(value: Any) -> bool:
    """Whether it is a list of lists of whole numbers; yes and no count as such."""
    return _is_list(value) and all(isinstance(row, (list, tuple)) and all(map(flag, row)) for row in value)


def pairs(value: Any) -> bool:
    """Whether it is a list of pairs of whole numbers."""
    return rows(value) and all(len(row) == 2 for row in value)


def fours(value: Any) -> bool:
    """Whether it is a list of lists of four whole numbers."""
    return rows(value) and all(len(row) == 4 for row in value)


def texts(value: Any) -> bool:
    """Whether it is a list of texts."""
    return _is_list(value) and all(map(text, value))


def sizes(value: Any) -> bool:
    """Whether it is names with whole numbers."""
    return isinstance(value, dict) and all(text(name) and whole(size) for name, size in value.items())


def held(value: Any) -> bool:
    """Whether it is a list of names with whole numbers."""
    return _is_list(value) and all(_is_list(row) and len(row) == 2 and text(row[0]) and whole(row[1]) for row in value)


ENTRY: dict[str, Kind] = {"parent": whole, "name": text}
SESSION: dict[str, Kind] = {"host": text, "uid": whole, "gid": whole}
IONODE: dict[str, Kind] = dict.fromkeys(("name", "host", "socket", "directory", "tcp", "tls"), text)
REQUIRED: dict[str, dict[str, Kind]] = {
    "session": SESSION,
    "join": {"session": text},
    "ionode": {**IONODE, "capacity": whole, "keys": held},
    "task": {"task": whole},
    "forgot": {"seq": whole},
    "lookup": ENTRY,
    "stat": {"ino": whole},
    "list": {"ino": whole},
    "create": {**ENTRY, "mode": whole},
    "mkdir": {**ENTRY, "mode": whole},
    "symlink": {**ENTRY, "target": text},
    "readlink": {"ino": whole},
    "unlink": ENTRY,
    "rmdir": ENTRY,
    "rename": {**ENTRY, "to_parent": whole, "to_name": text},
    "setattr": {"ino": whole},
    "open": {"ino": whole},
    "commit": {"handle": whole, "size": whole, "pieces": pairs},
    "close": {"handle": whole},
    "room": {"node": text, "bytes": whole},
    "lock": {"ino": whole, "owner": text, "kind": text, "start": whole, "end": whole},
    "flush": {"path": text},
    "prefetch": {"paths": texts},
    "refresh": {"path": text},
    "evict": {"path": text},
}
"""Keys without which a request is none; requests that aren't here need none."""
OPTIONAL: dict[str, Kind] = {
    **dict.fromkeys(("uid", "gid", "slot", "number", "pid", "limit", "wish", "owner", "group", "mode"), whole),
    **dict.fromkeys(("atime_ns", "mtime_ns", "size"), whole),
    **dict.fromkeys(("abandoned", "listen", "last", "parents", "exclusive", "truncate", "write", "sync"), flag),
    **dict.fromkeys(("dirty", "test", "done"), flag),
    **dict.fromkeys(("resume", "after", "flags", "error"), text),
    "wait_s": number,
    "errno": whole,
    "groups": numbers,
    "handles": fours,
    "slots": pairs,
    "room": sizes,
    "busy": sizes,
}
"""What else a request may have, of whatever kind it is."""


def check(op: str, message: Message) -> None:
    """Look at a request's keys.

    Raises
    ------
    ProtocolError
        If one is missing, or has a value of a wrong kind.
    """
    required = REQUIRED.get(op, {})
    for key, kind in required.items():
        if key not in message:
            raise ProtocolError(f"request {op!r} without {key!r}")
        if not kind(message[key]):
            raise ProtocolError(f"request {op!r} with a {key!r} of a wrong kind ({_doc(kind)} is asked for)")
    for key, value in message.items():
        expected = None if key in required else OPTIONAL.get(key)
        if expected is not None and not expected(value):
            raise ProtocolError(f"request {op!r} with a {key!r} of a wrong kind ({_doc(expected)} is asked for)")


def _doc(kind: Kind) -> str:
    return (kind.__doc__ or "").removeprefix("Whether it is ").rstrip(".")
