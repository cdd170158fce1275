"""What tasks are handed: threads share it and processes get copies of it, so neither its maps nor its arrays change."""

from dataclasses import fields
from operator import is_
from typing import Any, NoReturn, TypeVar

import numpy as np

K = TypeVar("K")
V = TypeVar("V")
_PLAIN = frozenset({int, float, str, bytes, type(None)})
"""What can't be changed anyway: most of what tasks get, so it isn't looked at further."""


class FrozenMap(dict[K, V]):
    """A map that stays as it is."""

    __slots__ = ()

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("tasks share this map: make another one with what is to change")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenMap, (dict(self),)


def frozen(value: Any) -> Any:
    """Return a value whose maps, lists and arrays can't be changed; what is so already is returned itself.

    Records aren't looked into: they freeze what they are made of (`Frozen`).
    """
    kind = type(value)
    if kind is dict:
        return FrozenMap({key: frozen(item) for key, item in value.items()})
    if kind is tuple or kind is list:
        # Plain values, which most are, aren't asked: with a thousand nodes that took as long as a batch's news.
        found = tuple([item if type(item) in _PLAIN else frozen(item) for item in value])
        return value if kind is tuple and all(map(is_, found, value)) else found
    if isinstance(value, np.ndarray) and value.flags.writeable:
        view = value.view()
        view.flags.writeable = False
        return view
    return value


class Frozen:
    """A dataclass that is frozen as far as it goes, in the process that it was made in and where it was sent to."""

    __slots__ = ()

    def __post_init__(self) -> None:
        for name in _names(type(self)):
            value = getattr(self, name)
            if (kept := frozen(value)) is not value:
                object.__setattr__(self, name, kept)

    def __reduce__(self) -> tuple[Any, ...]:  # as it is made: what is unpickled in another way can be changed again
        return type(self), tuple([getattr(self, name) for name in _names(type(self))])


_KNOWN: dict[type, tuple[str, ...]] = {}


def _names(kind: type) -> tuple[str, ...]:
    """Return the names of the fields of a dataclass that it is made of."""
    if kind not in _KNOWN:
        _KNOWN[kind] = tuple(item.name for item in fields(kind) if item.init)
    return _KNOWN[kind]
