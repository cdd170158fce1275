"""What bbflow doesn't stage itself goes to the pegasus-transfer that is installed."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from bbflow_pegasus.statistics import tool


def delegate(entries: Sequence[Mapping[str, Any]], words: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run pegasus-transfer, and return its exit code.

    Parameters
    ----------
    entries
        The list that it gets.
    words
        Its arguments.
    environment
        Its variables.

    Raises
    ------
    MissingToolError
        If it isn't there.
    """
    # Both write to one file, the job's output: ours came before.
    sys.stdout.flush()
    command = [tool("pegasus-transfer", environment), *words]
    done = subprocess.run(command, input=json.dumps(entries), text=True, env=dict(environment), check=False)
    return done.returncode
