"""Stores that tests have made, as other programs' readers see them."""

import json


def strict(text):
    """Parse JSON by RFC 8259, which knows no NaN, no Infinity, and no key twice."""
    return json.loads(text, parse_constant=_refuse, object_pairs_hook=_once)


def _refuse(word):
    raise ValueError(f"{word} is no JSON")


def _once(pairs):
    keys = [key for key, _ in pairs]
    assert len(set(keys)) == len(keys), f"keys that come twice: {keys}"
    return dict(pairs)
