"""Steps whose spilled blocks are lost: a node tells of them, but somebody has removed, cut or changed their files."""

import math
import os
from dataclasses import replace

from bbflow.errors import SpillError
from bbflow.store.spilled import check_spilled
from bbflow.stream.records import Step
from bbflow.view.stream import News


def readable(node: str, news: News, before_s: float = math.inf) -> tuple[News, list[str]]:
    """Return a node's news without the steps that can't be read any more, and which these are, in words.

    Parameters
    ----------
    node, news
        Who says what.
    before_s
        Steps that were committed later aren't looked at (seconds since the epoch).

    Raises
    ------
    OSError
        If a file can't be read, but perhaps later: its directory isn't there, or the file system doesn't answer.
    """
    steps, lost = [], []
    for step in news.steps:
        if step.committed_s <= before_s and (why := _why_lost(step)):
            lost.append(f"step {step.number}, which BB node {node} has, is lost: {why}")
        else:
            steps.append(step)
    return (replace(news, steps=tuple(steps)) if lost else news), lost


def _why_lost(step: Step) -> str:
    for file in step.files:
        try:
            check_spilled(file)
        except FileNotFoundError as error:
            if not os.path.isdir(os.path.dirname(file)):
                raise
            return f"{file}: {error.strerror}"
        except SpillError as error:
            return str(error)
    return ""
