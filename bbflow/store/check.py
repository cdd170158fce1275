"""What a record of the index must look like: nothing else is written, and nothing else is read."""

import math
import struct
from collections.abc import Callable, Mapping
from typing import Any

from bbflow.errors import ProtocolError
from bbflow.layouts import MAX_INTEGER
from bbflow.records import Message
from bbflow.store.extents import ALIGNMENT_BYTES

Check = Callable[[Any], bool]


def is_count(value: Any) -> bool:
    """Whether a value is a whole number that isn't negative, of at most 63 bits."""
    return type(value) is int and 0 <= value <= MAX_INTEGER


def is_number(value: Any) -> bool:
    """Whether a value is a finite number."""
    return type(value) in (int, float) and math.isfinite(value)


def _is_settled(value: Any) -> bool:
    return value == -1 or is_count(value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_list_of(check: Check) -> Check:
    return lambda value: isinstance(value, list | tuple) and all(check(item) for item in value)


def _is_extent(value: Any) -> bool:
    return len(value) == 2 and all(is_count(number) and not number % ALIGNMENT_BYTES for number in value)


def _is_attribute(value: Any) -> bool:
    return isinstance(value, dict) and _is_text(value.get("name")) and _is_text(value.get("type")) and "value" in value


def _is_bytes(value: Any) -> bool:
    return isinstance(value, bytes)


def _is_sources(value: Any) -> bool:
    places = (place for (place,) in struct.iter_unpack("<q", value))
    return isinstance(value, bytes) and all(place >= 0 and not place % ALIGNMENT_BYTES for place in places)


def _is_cursor(value: Any) -> bool:
    return len(value) == 2 and type(value[0]) is int and isinstance(value[1], bytes)


def _is_rank(value: Any) -> bool:
    first, committed, expected_bytes, closed, loss_timeout_s = value[1:]
    sizes = is_count(value[0]) and is_count(first) and _is_settled(committed)
    return (
        sizes
        and (expected_bytes is None or is_count(expected_bytes))
        and type(closed) is bool
        and is_number(loss_timeout_s)
    )


def _is_move(value: Any) -> bool:
    return len(value) == 2 and is_count(value[0]) and _is_text(value[1])


def _is_cursors(value: Any) -> bool:
    return all(_is_text(name) and _is_cursor(cursor) for name, cursor in value.items())


_IS_FORMS = _is_list_of(_is_list_of(lambda value: value is not None))
_RANK: Mapping[str, Check] = {"stream": _is_text, "rank": is_count}
_STEP: Mapping[str, Check] = {"stream": _is_text, "step": is_count}
_EXTENTS: Mapping[str, Check] = {"extents": _is_list_of(_is_extent)}
_CONTENT: Mapping[str, Check] = {
    "layout": lambda value: type(value) is int,
    "sources": _is_sources,
    "files": _is_list_of(_is_text),
    "values": _is_list_of(lambda value: value is not None),
    "extremes": _is_bytes,
    "attributes": _is_list_of(_is_attribute),
    "began_s": is_number,
    "committed_s": is_number,
}
_COUNTS = ("writers", "announced", "epoch", "landed_steps", "landed_bytes")
_FORMS: Mapping[str, Mapping[str, Check]] = {
    "format": {"version": is_count, "capacity": is_count},
    "open": {
        **_RANK,
        **dict.fromkeys(("writers", "local_writers"), is_count),
        "moved_from": _is_text,
        "settled": _is_settled,
        "loss_timeout_s": is_number,
    },
    "grant": {**_RANK, **_STEP, **_EXTENTS},
    "commit": {**_RANK, **_STEP, **_CONTENT},
    "layout": {**_RANK, "layout": lambda value: type(value) is int, "forms": _IS_FORMS},
    "step": {**_STEP, **_CONTENT, "ranks": is_count},
    "discard": _STEP,
    "evict": {"stream": _is_text, "steps": _is_list_of(is_count)},
    "attach": {"stream": _is_text, "consumers": _is_list_of(_is_text), "epoch": is_count},
    "done": {
        "stream": _is_text,
        "consumer": _is_text,
        "step": lambda value: type(value) is int,
        "checkpoint": _is_bytes,
    },
    "close": {**_RANK, "attributes": _is_list_of(_is_attribute)},
    "abort": _RANK,
    "drop": {"stream": _is_text},
    "state": {
        "stream": _is_text,
        "status": lambda value: value in ("expected", "open", "closed", "aborted"),
        **dict.fromkeys(_COUNTS, is_count),
        "last": _is_settled,
        "ranks": _is_list_of(_is_rank),
        "moved": _is_list_of(_is_move),
        "base": _is_list_of(_is_attribute),
        "final": _is_list_of(_is_attribute),
        "discarded": _is_list_of(is_count),
        "consumers": _is_cursors,
    },
}


_OPTIONAL: Mapping[str, Check] = {"owner": _is_text, "forms": _IS_FORMS}


def check_record(record: Message) -> None:
    """Refuse a record that doesn't have the form of its kind (FORMAT.md, 'Index').

    Raises
    ------
    ProtocolError
        If a key is missing, or its value is of a wrong type or out of range.
    """
    kind = record.get("record")
    form = _FORMS.get(kind) if isinstance(kind, str) else None
    if form is None:
        raise ProtocolError(f"there is no record of the kind {kind!r}")
    for key, check in {**form, **{key: check for key, check in _OPTIONAL.items() if key in record}}.items():
        if key not in record:
            raise ProtocolError(f"a record {kind!r} without {key!r}")
        if not _holds(check, record[key]):
            raise ProtocolError(f"a record {kind!r} with a wrong {key!r}: {str(record[key])[:100]}")


def _holds(check: Check, value: Any) -> bool:
    try:
        return check(value)
    except (TypeError, ValueError, AttributeError, struct.error):
        return False
