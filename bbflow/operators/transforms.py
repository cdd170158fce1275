"""Stub."""

from abc import ABC


class Transform(ABC):
    pass


def parse_transforms(items):
    return ()
