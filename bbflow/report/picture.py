"""A finished picture, and what is said of one that can't be drawn."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture with its words."""

    name: str
    """Of its file, without the ending."""
    title: str
    """Heading."""
    caption: str
    """What is seen, in sentences."""
    png: bytes
    """The file's content."""


def attempt(left_out: list[str], what: str, draw: Callable[..., Picture | None], *words: Any) -> list[Picture]:
    """Draw a picture; whatever goes wrong costs that picture alone, and is said in a sentence.

    Parameters
    ----------
    left_out
        Gets the sentence.
    what
        The picture, in words.
    draw, *words
        What draws it; None if there is nothing to draw.

    Returns
    -------
    list of Picture
        One, or none.
    """
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            picture = draw(*words)
    except Exception as error:  # data may be anything, and what draws them fails in many ways
        left_out.append(f"{what[0].upper()}{what[1:]} can't be drawn and is left out: {describe_failure(error)}.")
        return []
    return [] if picture is None else [picture]


def describe_failure(error: object) -> str:
    """Return what an error says in one line, without the full stop."""
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__
