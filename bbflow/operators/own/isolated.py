"""The process that runs a user's code, as `isolation` starts it."""

import os
import pickle
import sys
from typing import Any

import numpy as np

from bbflow.operators.own.guard import fails
from bbflow.operators.own.isolation import send


def _run(work: bytes) -> tuple[bool, Any]:
    try:
        target, method, arguments, keys = pickle.loads(work)
        function = getattr(target, method) if method else pickle.loads(target)
        with np.errstate(all="ignore"):
            given = function(*arguments, **keys)
        in_place = method in ("fold", "clear")
        return True, arguments[0] if in_place else given
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        return False, fails(error)


def serve() -> None:
    """Run what comes in on standard input; what the user's code prints goes to standard error."""
    calls, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    paths, origin = pickle.load(calls)
    sys.path += [path for path in paths if path not in sys.path]
    origin.make_importable()
    while True:
        try:
            work = pickle.load(calls)
        except EOFError:
            return
        try:
            send(replies, _run(work))
        except BrokenPipeError:  # who has asked was killed meanwhile
            return


if __name__ == "__main__":
    serve()
